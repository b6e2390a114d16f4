"""Attention however it is written: one call, step by step, in place, by torch's own module;
with caps, norms and sinks.
"""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import looprop
from looprop import Plan
from looprop.errors import RuleError
from looprop.methods.lrp import LRP
from propagation.pieces import DIM, SEQUENCE


class Attention(nn.Module):
    """Attention over three positions, written in several ways."""

    def __init__(self, attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.attend = attend
        generator = torch.Generator().manual_seed(1)
        self.projections = nn.ParameterList(
            torch.randn(DIM, DIM, dtype=torch.float64, generator=generator) for _ in range(3)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.attend(*(x @ p for p in self.projections)).flatten(1).sum(-1)


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT / DIM**0.5, -1) @ v


def in_place_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.bmm(q, k.transpose(1, 2))
    scores /= DIM**0.5
    scores += torch.zeros(3, 3, dtype=torch.float64)
    weights = F.softmax(scores, dim=-1, dtype=torch.float64)
    return torch.einsum("bij,bjd->bid", weights, v)


WAYS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "fused": lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
    "fused by keywords": lambda q, k, v: F.scaled_dot_product_attention(
        query=q[:, None], key=k[:, None], value=v[:, None]
    )[:, 0],
    "in place": in_place_attention,
    "query scaled": lambda q, k, v: (q / DIM**0.5 @ k.mT).softmax(-1) @ v,
    "baddbmm": lambda q, k, v: (
        torch.baddbmm(torch.zeros(1, 3, 3).double(), q, k.mT, beta=1, alpha=DIM**-0.5).softmax(-1) @ v
    ),
    "einsum": lambda q, k, v: torch.einsum(
        "bij,bjd->bid", torch.softmax(torch.einsum("bid,bjd->bij", q, k) * DIM**-0.5, -1), v
    ),
}


@pytest.mark.parametrize(
    "plan", [Plan(), Plan(attention="cp"), Plan(epsilon=0.1), Plan(attention="cp", epsilon=0.1)], ids=str
)
@pytest.mark.parametrize("way", WAYS)
def test_ways_to_write_attention(way: str, plan: Plan) -> None:
    expected = looprop.attribute(Attention(attend), SEQUENCE, LRP(plan=plan))
    assert torch.allclose(
        looprop.attribute(Attention(WAYS[way]), SEQUENCE, LRP(plan=plan)), expected, rtol=1e-9, atol=1e-12
    )


def attention_by_hand(
    module: Attention, cap: float | None = None, sink: float | None = None, normalise: bool = False
) -> Tensor:
    """AttnLRP at epsilon 0 with autograd on detached pieces: V gets half of the gradient, Q and K a quarter."""
    x = SEQUENCE.clone().requires_grad_()
    q, k, v = (x @ p.detach() for p in module.projections)
    if normalise:
        q, k = (t / t.detach().norm(dim=-1, keepdim=True) for t in (q, k))
    z = q @ k.mT / DIM**0.5
    if cap is not None:
        z = z * (cap * torch.tanh(z / cap) / z).detach()  # the identity rule
    logits = z if sink is None else torch.cat([z, torch.full_like(z[..., :1], sink)], -1)
    weights = torch.softmax(logits, -1)[..., : z.shape[-1]]
    by_values = (weights.detach() @ v).sum()
    by_weights = (weights @ v.detach()).sum()
    (g_values,) = torch.autograd.grad(by_values, x, retain_graph=True)
    (g_weights,) = torch.autograd.grad(by_weights, x)
    # The chain through q k^T is a sum of two paths; each of them gets half.
    return SEQUENCE * (0.5 * g_values + 0.25 * g_weights)


def test_softcapped_scores() -> None:
    module = Attention(lambda q, k, v: torch.softmax(5.0 * torch.tanh(q @ k.mT / DIM**0.5 / 5.0), -1) @ v)
    assert torch.allclose(looprop.attribute(module, SEQUENCE), attention_by_hand(module, cap=5.0), rtol=1e-9)


def test_normalised_queries_and_keys() -> None:
    module = Attention(
        lambda q, k, v: F.scaled_dot_product_attention(F.normalize(q, dim=-1), F.normalize(k, dim=-1), v)
    )
    assert torch.allclose(looprop.attribute(module, SEQUENCE), attention_by_hand(module, normalise=True), rtol=1e-9)


def test_attention_sinks() -> None:
    def with_sink(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.mT / DIM**0.5
        sinks = nn.Parameter(torch.tensor(0.7, dtype=torch.float64)).expand(*scores.shape[:-1], 1)
        return torch.softmax(torch.cat([scores, sinks], -1), -1)[..., :-1] @ v

    module = Attention(with_sink)
    assert torch.allclose(looprop.attribute(module, SEQUENCE), attention_by_hand(module, sink=0.7), rtol=1e-9)


@pytest.mark.parametrize("plan", [Plan(), Plan(epsilon=1e-9), Plan(attention="cp")], ids=str)
def test_a_learned_query_gets_no_share(plan: Plan) -> None:
    """Attention pooling: the query is a parameter, so that q k^T is linear in k and is not split."""
    query = nn.Parameter(torch.randn(1, 1, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(5)))
    module = Attention(lambda q, k, v: F.scaled_dot_product_attention(query.expand(len(k), -1, -1), k, v))
    found = looprop.attribute(module, SEQUENCE, LRP(plan=plan))
    x = SEQUENCE.clone().requires_grad_()
    k, v = (x @ p.detach() for p in module.projections[1:])
    weights = torch.softmax(query.detach() @ k.mT / DIM**0.5, -1)
    (g_values,) = torch.autograd.grad((weights.detach() @ v).sum(), x, retain_graph=True)
    (g_weights,) = torch.autograd.grad((weights @ v.detach()).sum(), x)
    expected = SEQUENCE * (g_values if plan.attention == "cp" else 0.5 * g_values + 0.5 * g_weights)
    assert torch.allclose(found, expected, rtol=1e-6)
    # Written out it is told from a router by its softmax over the keys.
    module = Attention(lambda q, k, v: torch.softmax(query @ k.mT / DIM**0.5, -1) @ v)
    assert torch.allclose(looprop.attribute(module, SEQUENCE, LRP(plan=plan)), expected, rtol=1e-6)


def test_weights_times_values_are_no_scores() -> None:
    """A softmax right after a residual attention without projections is another softmax, not another attention."""
    module = Attention(lambda q, k, v: torch.softmax(v + attend(q, k, v), -1)[..., :1])
    with pytest.raises(RuleError, match="'softmax'"):
        looprop.attribute(module, SEQUENCE)


@pytest.mark.parametrize("plan", [Plan(), Plan(attention="cp"), Plan(epsilon=0.1)], ids=str)
def test_a_learned_query_of_torch_s_own_attention(plan: Plan) -> None:
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(DIM, 2, batch_first=True, dtype=torch.float64)
    probe = nn.Parameter(torch.randn(1, 1, DIM, dtype=torch.float64))
    fused, written = (
        looprop.attribute(
            lambda x, weights=weights: attention(probe.expand(len(x), -1, -1), x, x, need_weights=weights)[0].sum(
                (1, 2)
            ),
            SEQUENCE,
            LRP(plan=plan),
        )
        for weights in (False, True)
    )
    assert torch.allclose(fused, written, rtol=1e-9, atol=1e-12)


class SelfAttention(nn.Module):
    def __init__(self, *, need_weights: bool, batch_first: bool = True) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(DIM, 2, batch_first=batch_first, dtype=torch.float64)
        self.need_weights = need_weights

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.attention(x, x, x, need_weights=self.need_weights)
        return out.flatten(1).sum(-1)


@pytest.mark.parametrize("plan", [Plan(), Plan(attention="cp"), Plan(epsilon=0.1)], ids=str)
def test_multihead_attention_with_and_without_weights(plan: Plan) -> None:
    torch.manual_seed(0)
    fused, written = SelfAttention(need_weights=False), SelfAttention(need_weights=True)
    written.load_state_dict(fused.state_dict())
    with torch.no_grad():
        fused.attention.in_proj_bias.copy_(torch.randn(3 * DIM))
        written.attention.in_proj_bias.copy_(fused.attention.in_proj_bias)
    found = [
        looprop.attribute(m.train(training), SEQUENCE, LRP(plan=plan))
        for m in (fused, written)
        for training in (False, True)
    ]
    for other in found[1:]:
        assert torch.allclose(found[0], other, rtol=1e-9, atol=1e-12)
    # Against the same thing by hand: one attention per head.
    weight, bias = fused.attention.in_proj_weight.detach(), fused.attention.in_proj_bias.detach()

    def by_hand(x: Tensor) -> Tensor:
        q, k, v = (
            F.linear(x, w, b).unflatten(-1, (2, 2)).transpose(1, 2)
            for w, b in zip(weight.chunk(3), bias.chunk(3), strict=True)
        )
        mixed = (torch.softmax(q @ k.mT / 2**0.5, -1) @ v).transpose(1, 2).flatten(2)
        return F.linear(mixed, fused.attention.out_proj.weight, fused.attention.out_proj.bias).flatten(1).sum(-1)

    assert torch.allclose(found[0], looprop.attribute(by_hand, SEQUENCE, LRP(plan=plan)), rtol=1e-9, atol=1e-12)

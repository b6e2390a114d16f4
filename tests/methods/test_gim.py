"""GIM against its equations, written with torch's own gradient, and against its authors' package."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import looprop
import tiny
import zoo
from looprop import Plan
from looprop.errors import InputError, PlanError, UnknownNameError
from looprop.methods import make_method
from looprop.methods.gim import GIM
from looprop.methods.lrp import LRP
from looprop.propagation import reference
from propagation.pieces import DIM, SEQUENCE
from propagation.test_ways_of_attention import WAYS, Attention, attend
from removal.naive import subject_of


def by_hand(module: Attention, temperature: float) -> Tensor:
    """x * g with q and k by 1/4, v by 1/2 and softmax differentiated as T softmax(z / T), loop by loop."""
    q, k, v = (SEQUENCE @ p.detach() for p in module.projections)
    total = torch.zeros_like(SEQUENCE)
    for b in range(len(SEQUENCE)):
        scores = q[b] @ k[b].T / DIM**0.5
        weights, softer = torch.softmax(scores, -1), torch.softmax(scores / temperature, -1)
        g_weights = v[b].sum(-1).expand_as(weights)  # the output is the sum of all entries
        g_v = weights.sum(0)[:, None].expand_as(v[b]) / 2
        g_scores = torch.zeros_like(scores)
        for j in range(len(scores)):
            for i in range(len(scores)):
                mean = sum(float(softer[j, m] * g_weights[j, m]) for m in range(len(scores)))
                g_scores[j, i] = softer[j, i] * (g_weights[j, i] - mean)
        g_q, g_k = g_scores @ k[b] / DIM**0.5 / 4, g_scores.T @ q[b] / DIM**0.5 / 4
        for gradient, projection in zip((g_q, g_k, g_v), module.projections, strict=True):
            total[b] += SEQUENCE[b] * (gradient @ projection.detach().T)
    return total


@pytest.mark.parametrize("temperature", [1.0, 2.0, 0.7])
@pytest.mark.parametrize("way", ["written", *WAYS])
def test_is_its_equation_however_attention_is_written(way: str, temperature: float) -> None:
    module = Attention(attend if way == "written" else WAYS[way])
    found = looprop.attribute(module, SEQUENCE, "gim", temperature=temperature)
    torch.testing.assert_close(found, by_hand(module, temperature), rtol=1e-9, atol=1e-12)


def test_the_reference_of_softmax_at_a_temperature() -> None:
    z = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    g = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    (slope,) = torch.autograd.grad((2.0 * torch.softmax(z / 2.0, -1) * g).sum(), z)
    weights = torch.softmax(z.detach(), -1)
    torch.testing.assert_close(reference.softmax(z.detach(), weights * g, temperature=2.0), z.detach() * slope)
    torch.testing.assert_close(
        reference.softmax(z.detach(), weights * g, temperature=1.0 + 1e-12), reference.softmax(z.detach(), weights * g)
    )


def test_activations_and_gates_are_the_gradient_and_norms_are_held() -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(DIM, DIM, dtype=torch.float64, generator=generator)

    def gated(x: Tensor) -> Tensor:
        y = F.layer_norm(x, (DIM,))
        return (F.silu(y @ weight) * torch.sigmoid(y)).flatten(1).sum(-1)

    x = SEQUENCE.clone().requires_grad_()
    y = (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt().detach()
    (gradient,) = torch.autograd.grad((F.silu(y @ weight) * torch.sigmoid(y)).sum(), x)
    found = looprop.attribute(gated, SEQUENCE, "gim")
    torch.testing.assert_close(found, SEQUENCE * gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "gemma3", "deberta-v2", "mpnet"])
def test_the_surrogate_has_the_slope(family: str) -> None:
    """Softmax at a temperature is the derivative of something: of what the audit measures."""
    from looprop.auditing.checks import slope_gap

    subject, method = subject_of(family), make_method("gim")
    (found,) = method.attribute([subject])
    assert slope_gap(method, subject, found) < 1e-4


def test_temperature_one_without_the_rest_is_attnlrp() -> None:
    module = Attention(attend)
    torch.testing.assert_close(
        looprop.attribute(module, SEQUENCE, "gim", temperature=1.0), looprop.attribute(module, SEQUENCE, "attnlrp")
    )
    with pytest.raises(PlanError, match="temperature must be a number > 0, got 0"):
        GIM(temperature=0)
    with pytest.raises(UnknownNameError, match="unknown baseline 'spce'"):
        GIM(baseline="spce")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="baseline='space' is for texts"):
        looprop.attribute(module, SEQUENCE, "gim", baseline="space")


def test_temperature_goes_with_a_positive_epsilon() -> None:
    module, other = Attention(attend), Attention(WAYS["fused"])
    plan = Plan(temperature=2.0, epsilon=1e-12)
    expected = looprop.attribute(module, SEQUENCE, LRP(plan=Plan(temperature=2.0)))
    for network in (module, other):
        torch.testing.assert_close(looprop.attribute(network, SEQUENCE, LRP(plan=plan)), expected)


# ----- the authors' package


def written_out(query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, **options: Any) -> Tensor:
    """Attention whose softmax the package can reach, too: it patches either the fused call or softmax itself."""
    if options.get("is_causal"):
        attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
    scores = query @ key.mT * (options.get("scale") or query.shape[-1] ** -0.5)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    return torch.softmax(scores, dim=-1) @ value


@contextmanager
def attention_written_out() -> Iterator[None]:
    original, F.scaled_dot_product_attention = F.scaled_dot_product_attention, written_out
    try:
        yield
    finally:
        F.scaled_dot_product_attention = original


@pytest.mark.parametrize("temperature", [2.0, 1.0])
@pytest.mark.parametrize("baseline", ["space", "zero"])
def test_is_what_the_package_says(baseline: str, temperature: float) -> None:
    """On a GPT-2: its norms are torch's own, which the package knows; Llama's RMS norms it leaves as they are."""
    gim = pytest.importorskip("gim", reason="gim-explain is not installed: pip install --no-deps gim-explain")
    tokenizer = tiny.byte_level()
    torch.manual_seed(0)
    model: Any = zoo.build("gpt2").double()
    model.resize_token_embeddings(len(tokenizer))
    for parameter in model.parameters():  # biases of a random GPT-2 are zero
        nn.init.normal_(parameter, std=0.3)
    text = "the film is not good and this was fun"
    ids = tokenizer(text, return_tensors="pt").input_ids
    bench = looprop.load((model, tokenizer))
    target = int(model(ids).logits[0, -1].argmax())
    with attention_written_out():
        if baseline == "space":
            expected = gim.explain(model, ids, tokenizer=tokenizer, softmax_temperature=temperature)
        else:
            x = model.get_input_embeddings()(ids).detach().requires_grad_()
            with gim.GIM(model, softmax_temperature=temperature):
                model(inputs_embeds=x, use_cache=False).logits[0, -1, target].backward()
            expected = (x.grad * x).sum(-1)[0]
    found = bench.explain(text, "gim", target=target, baseline=baseline, temperature=temperature)
    np.testing.assert_allclose(found.scores, expected.detach().double().numpy(), rtol=1e-5, atol=1e-8)

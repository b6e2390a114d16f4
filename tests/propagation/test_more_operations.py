"""Group norms, Fourier transforms, biases of scores, BLOOM's GELU, clamps, and a table that is looked up twice."""

import math
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers as hf
from torch import Tensor, nn

import looprop
from looprop import Plan, relevance
from looprop.errors import RuleError, UnseenError
from looprop.methods.lrp import LRP
from looprop.propagation import reference

GENERATOR = torch.Generator().manual_seed(6)


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=GENERATOR)


# ----- group norms


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("kind", ["group", "instance"])
def test_group_norm_is_its_reference_and_that_is_a_literal_loop(kind: str, affine: bool) -> None:
    x, r = draw(2, 4, 3), draw(2, 4, 3)
    weight, bias = (draw(4), draw(4)) if affine else (None, None)
    groups = 2 if kind == "group" else 4
    found = reference.group_norm_constant_std(x, groups, weight, bias, r, norm_eps=1e-5)
    expected = torch.zeros_like(x)
    size = 4 // groups
    for b, g in product(range(2), range(groups)):
        members = [(c, p) for c in range(g * size, (g + 1) * size) for p in range(3)]
        mean = sum(float(x[b, c, p]) for c, p in members) / len(members)
        sigma = math.sqrt(sum((float(x[b, c, p]) - mean) ** 2 for c, p in members) / len(members) + 1e-5)
        for c, p in members:
            gain, shift = (float(weight[c]), float(bias[c])) if weight is not None and bias is not None else (1.0, 0.0)
            y = gain * (float(x[b, c, p]) - mean) / sigma + shift
            for i, q in members:
                part = ((1.0 if (i, q) == (c, p) else 0.0) - 1 / len(members)) * float(x[b, i, q]) * gain / sigma
                expected[b, i, q] += part / y * float(r[b, c, p])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)

    head = draw(4, 3)

    def run(x: Tensor) -> Tensor:
        normed = F.group_norm(x, 2, weight, bias) if kind == "group" else F.instance_norm(x, weight=weight, bias=bias)
        return (normed * head).sum((1, 2))

    out = F.group_norm(x, groups, weight, bias)
    wanted = reference.group_norm_constant_std(x, groups, weight, bias, out * head, norm_eps=1e-5)
    torch.testing.assert_close(looprop.attribute(run, x, LRP()), wanted, rtol=1e-9, atol=1e-12)


# ----- Fourier transforms


def test_a_fourier_transform_is_a_linear_layer() -> None:
    x, head = draw(2, 4, 3), draw(4, 3)
    found = looprop.attribute(lambda x: (torch.fft.fftn(x, dim=(1, 2)).real * head).sum((1, 2)), x, LRP())
    expected = torch.zeros_like(x)
    for t, d, i, j in product(range(4), range(3), range(4), range(3)):
        cosine = math.cos(2 * math.pi * (t * i / 4 + d * j / 3))
        expected[:, i, j] += x[:, i, j] * cosine * float(head[t, d])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
    with pytest.raises(RuleError, match=r"'fft_fftn'.*epsilon"):
        looprop.attribute(lambda x: torch.fft.fftn(x).real.sum((1, 2)), x, LRP(plan=Plan(epsilon=0.1)))


# ----- biases of attention scores that come from activations


@pytest.mark.parametrize("attention", ["attnlrp", "cp"])
def test_a_bias_of_scores_that_comes_from_activations(attention: Any) -> None:
    """One fused call is the same as scores, bias, softmax and values one after the other."""
    x = draw(2, 3, 4)
    weights = [draw(4, 4) for _ in range(3)]
    to_bias = draw(4, 3)

    def fused(x: Tensor) -> Tensor:
        q, k, v = (x @ w for w in weights)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=x @ to_bias).sum((1, 2))

    def written(x: Tensor) -> Tensor:
        q, k, v = (x @ w for w in weights)
        return (torch.softmax(q @ k.mT / 2 + x @ to_bias, -1) @ v).sum((1, 2))

    plan = Plan(attention=attention)
    one, other = (looprop.attribute(f, x, LRP(plan=plan)) for f in (fused, written))
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)
    with pytest.raises(RuleError, match="epsilon"):
        looprop.attribute(fused, x, LRP(plan=Plan(epsilon=0.1)))


def test_a_learned_sink_takes_a_share_of_the_weights_and_none_of_the_relevance() -> None:
    """A softmax over the keys and one learned number, whose place is then left out (gpt-oss), under CP-LRP."""
    x, sink = draw(1, 3, 4), draw(1)
    w = [draw(4, 4) for _ in range(3)]

    def run(x: Tensor) -> Tensor:
        q, k, v = (x @ p for p in w)
        scores = torch.cat([q @ k.mT / 2, sink.expand(len(x), 3, 1)], -1)
        return (torch.softmax(scores - scores.amax(-1, keepdim=True), -1)[..., :-1] @ v).sum((1, 2))

    found = looprop.attribute(run, x, LRP(plan=Plan(attention="cp")))
    q, k = (x[0] @ p for p in w[:2])
    expected = torch.zeros_like(x)
    for t in range(3):
        terms = [math.exp(float(q[t] @ k[s]) / 2) for s in range(3)]
        total = sum(terms) + math.exp(float(sink))
        for s, i in product(range(3), range(4)):
            expected[0, s, i] += terms[s] / total * float(x[0, s, i] * w[2][i].sum())
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(found.sum(), run(x)[0], rtol=1e-9, atol=1e-12)


# ----- clamps


def test_a_clamp_around_zero_is_an_activation() -> None:
    x, head = draw(2, 5), draw(5)
    found = looprop.attribute(lambda x: (x.clamp(min=-0.5, max=0.3) * head).sum(-1), x, LRP())
    torch.testing.assert_close(found, x.clamp(-0.5, 0.3) * head)  # the identity rule: R_x = R_y
    with pytest.raises(RuleError, match="'clamp'"):
        looprop.attribute(lambda x: (x + x.clamp(min=0.1)).sum(-1), x, LRP())


# ----- BLOOM


def bloom() -> Any:
    torch.manual_seed(0)
    return hf.BloomForCausalLM(hf.BloomConfig(vocab_size=99, hidden_size=16, n_layer=2, n_head=2)).double().eval()


def test_the_gelu_of_bloom_is_torch_s() -> None:
    model, ids = bloom(), torch.arange(5, 12)[None]
    found = []
    for gelu in (None, nn.GELU(approximate="tanh")):
        if gelu is not None:
            for block in model.transformer.h:
                block.mlp.gelu_impl = gelu
        with relevance(model, Plan(), explained_weight=model.get_input_embeddings().weight) as tape:
            logit = model(input_ids=ids, use_cache=False).logits[:, -1, 7]
            found.append(tape.relevance(logit, tape.explained))
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-8)


class GeLUFunction(torch.autograd.Function):
    """Of the name that is known, and something else."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient


def test_a_name_alone_is_not_believed() -> None:
    with pytest.raises((RuleError, UnseenError), match="custom autograd function"):
        looprop.attribute(lambda x: GeLUFunction.apply(x).sum(-1), draw(2, 3), LRP())


# ----- a table that is looked up twice


class Twice(nn.Module):
    """An encoder and a decoder that share their table."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.mix = nn.Embedding(9, 4), nn.Linear(4, 4, bias=False)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return (self.mix(self.table(source)).sum(1) + 2 * self.table(target).sum(1)).sum(-1)


def test_both_look_ups_are_explained() -> None:
    torch.manual_seed(0)
    model = Twice().double()
    source, target = torch.tensor([[1, 2, 3]]), torch.tensor([[4, 1]])
    with relevance(model, Plan(), explained_weight=model.table.weight) as tape:
        out = model(source, target)
        first, second = tape.explained_inputs
        for read in ("explained", "embedding_sum"):
            with pytest.raises(RuleError, match="looked up more than once, in table"):
                getattr(tape, read)
        found = [
            tensor.detach() * g for tensor, g in zip((first, second), tape.gradients(out, [first, second]), strict=True)
        ]
    rows = model.table.weight.detach()
    torch.testing.assert_close(found[0], rows[source] * model.mix.weight.detach().sum(0))
    torch.testing.assert_close(found[1], 2 * rows[target])


def test_one_look_up_is_the_explained_one() -> None:
    model = Twice().double()
    with relevance(model, Plan(), explained_weight=model.table.weight) as tape:
        model.table(torch.tensor([[1, 2]]))
        assert [id(t) for t in tape.explained_inputs] == [id(tape.explained)]


# ----- plans


def test_the_options_are_checked_and_recorded() -> None:
    assert {k: Plan().to_dict()[k] for k in ("gate", "experts")} == {"gate": "constant", "experts": "constant"}
    assert Plan(gate="halves").to_dict()["gate"] == Plan(experts="halves").to_dict()["experts"] == "halves"
    for kind in ("gate", "experts"):
        with pytest.raises(looprop.errors.UnknownNameError):
            Plan(**{kind: "half"})

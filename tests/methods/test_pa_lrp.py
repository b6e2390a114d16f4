"""Relevance of positions: a rotation by hand, a whole Llama by lifted gradients, and models that have none."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
import transformers.models.llama.modeling_llama as turning
from torch import Tensor

import looprop
import tiny
import zoo
from looprop import Plan
from looprop.errors import InputError
from looprop.methods import make_method
from removal.naive import subject_of


def turned(x: Tensor, angles: Tensor) -> Tensor:
    half = torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), -1)
    return x * angles.cos() + half * angles.sin()


def test_a_rotation_by_hand() -> None:
    """y_t = R_t x_t, f = sum w y: half of each product's relevance to the position, half to x."""
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(5, 4, dtype=torch.float64, generator=generator)
    weight = torch.randn(3, 4, dtype=torch.float64, generator=generator)
    angles = torch.arange(3, dtype=torch.float64)[:, None] * torch.tensor([1.0, 0.3, 1.0, 0.3]).double()
    ids = torch.tensor([[1, 4, 2]])
    with looprop.relevance(None, Plan(rotary="halves"), explained_weight=table) as tape:
        out = (turned(torch.nn.functional.embedding(ids, table), angles[None]) * weight).sum()
        shares = tape.position_shares
        assert shares is not None
        word, positions = tape.gradients(out, [tape.explained, shares])
    for t in range(3):
        x, c, s, w = (v.tolist() for v in (table[ids[0, t]], angles[t].cos(), angles[t].sin(), weight[t]))
        products = [w[i] * x[i] * c[i] for i in range(4)]
        products += [w[i] * (-x[i + 2] if i < 2 else x[i - 2]) * s[i] for i in range(4)]
        assert float(positions[0, t]) == pytest.approx(sum(products) / 2)
        assert float((word[0, t] * table[ids[0, t]]).sum()) == pytest.approx(sum(products) / 2)


class Half(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient / 2


def test_a_whole_llama_by_gradients_at_its_cosines() -> None:
    """The engine's own AttnLRP with queries and keys halved before their rotation, and cosines and sines as leaves."""
    subject = subject_of("llama")
    found = make_method("pa-lrp").attribute([subject])[0].scores
    model: Any = copy.deepcopy(subject.adapter.model)
    taken: list[Tensor] = []
    own_turn = turning.apply_rotary_pos_emb

    def turn(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1, **more: Any) -> Any:
        leaves = [c.detach().clone().requires_grad_() for c in (cos, sin)]
        taken.extend(leaves)
        return own_turn(Half.apply(q), Half.apply(k), *(Half.apply(c) for c in leaves), unsqueeze_dim=unsqueeze_dim)

    plain = make_method("attnlrp").attribute([subject])[0].scores
    assert np.abs(found - plain).max() > 1e-6
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turning, "apply_rotary_pos_emb", turn)
        expected = attnlrp_by_hand(model, subject, taken)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9 * np.abs(expected).max())


def attnlrp_by_hand(model: Any, subject: Any, leaves: list[Tensor]) -> np.ndarray:
    """AttnLRP of a Llama by detached pieces: norms held, SiLU by the identity rule, halves at gates and attention."""
    F = torch.nn.functional
    with pytest.MonkeyPatch.context() as patch:

        def norm(self: Any, x: Tensor) -> Tensor:
            return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon).detach())

        def mlp(self: Any, x: Tensor) -> Tensor:
            gate, up = self.gate_proj(x), self.up_proj(x)
            return self.down_proj(Half.apply(gate * (F.silu(gate) / gate).detach() * up))

        def attend(q: Tensor, k: Tensor, v: Tensor, **more: Any) -> Tensor:
            return own(Half.apply(Half.apply(q)), Half.apply(Half.apply(k)), Half.apply(v), **more)

        own = F.scaled_dot_product_attention
        patch.setattr(turning.LlamaRMSNorm, "forward", norm)
        patch.setattr(turning.LlamaMLP, "forward", mlp)
        patch.setattr(F, "scaled_dot_product_attention", attend)
        x = model.get_input_embeddings()(subject.encoded.inputs["input_ids"]).detach().requires_grad_()
        logits = model(inputs_embeds=x, use_cache=False).logits[:, -1:]
        value = subject.target.value(logits)[0]
        gradient, *of_leaves = torch.autograd.grad(value, [x, *leaves])
    total = (x * gradient).sum(-1)[0]
    for leaf, own_gradient in zip(leaves, of_leaves, strict=True):
        total = total + (leaf * own_gradient).sum(-1)[0]
    return total.detach().numpy()


@pytest.mark.parametrize("family", ["bert", "gpt2", "distilbert"])
def test_learned_positions_are_the_sum(family: str) -> None:
    subject = subject_of(family)
    expected = make_method("attnlrp", readout="sum").attribute([subject])[0].scores
    np.testing.assert_allclose(make_method("pa-lrp").attribute([subject])[0].scores, expected, rtol=1e-12)


def test_what_positions_get_is_read_where_it_can_be() -> None:
    for plan in (Plan(rotary="halves"), Plan(bias="placed")):
        with pytest.raises(InputError, match="is read by 'libragrad' and 'pa-lrp'"):
            make_method("lrp", plan=plan)


def test_other_positions_are_refused() -> None:
    with pytest.raises(InputError, match="adds no position to its word embeddings and turns nothing"):
        make_method("pa-lrp").attribute([subject_of("t5-encoder")])
    with pytest.raises(InputError, match="pa-lrp has no meaning for inputs without word embeddings"):
        looprop.load((zoo.build("vit"), None)).explain(torch.rand(1, 16, 16, dtype=torch.float64), "pa-lrp")


@pytest.mark.parametrize("family", ["modernbert", "qwen3", "gemma3", "mistral", "gpt-neox", "phi3"])
def test_families_that_turn(family: str) -> None:
    if family not in zoo.TEXT:
        pytest.skip(f"no {family} in the zoo")
    found = make_method("pa-lrp").attribute([subject_of(family)])[0].scores
    plain = make_method("attnlrp").attribute([subject_of(family)])[0].scores
    assert np.isfinite(found).all()
    assert np.abs(found - plain).max() > 1e-9


def test_a_batch_is_one_by_one() -> None:
    bench = looprop.load((zoo.build("llama"), tiny.wordpiece()))
    texts = ["the film is good", "a very bad movie and fun"]
    for text, together in zip(texts, bench.explain(texts, "pa-lrp"), strict=True):
        np.testing.assert_allclose(together.scores, bench.explain(text, "pa-lrp").scores, rtol=1e-8, atol=1e-10)

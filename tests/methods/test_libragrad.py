"""LibraGrad's pruning is CP-LRP's backward pass; FullGrad adds b g at every bias."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from looprop.methods import make_method
from removal.naive import subject_of


class Norm(nn.Module):
    def __init__(self, norm: nn.LayerNorm, kept: list[Any]) -> None:
        super().__init__()
        self.norm, self.kept = norm, kept

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        out = centred / (centred.square().mean(-1, keepdim=True) + self.norm.eps).sqrt().detach() * self.norm.weight
        return noted(out, self.norm.bias, self.kept)


class Layer(nn.Module):
    def __init__(self, linear: nn.Linear, kept: list[Any]) -> None:
        super().__init__()
        self.linear, self.kept = linear, kept

    def forward(self, x: Tensor) -> Tensor:
        return noted(F.linear(x, self.linear.weight), self.linear.bias, self.kept)


class Pruned(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return x * (self.function(x) / x).detach()


def noted(out: Tensor, bias: Tensor, kept: list[Any]) -> Tensor:
    """The sum with a bias of its own for every position, whose gradient can be asked for."""
    own = bias.detach().expand_as(out).clone().requires_grad_()
    kept.append(own)
    return out + own


def pruned(model: Any, kept: list[Any]) -> None:
    """Every linear layer, norm and activation of a BERT, pruned by hand."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.LayerNorm):
                setattr(parent, name, Norm(child, kept))
            elif isinstance(child, nn.Linear):
                setattr(parent, name, Layer(child, kept))
    for module in model.modules():
        if hasattr(module, "intermediate_act_fn"):
            module.intermediate_act_fn = Pruned(F.gelu)


def test_by_a_bert_that_is_pruned_by_hand() -> None:
    subject = subject_of("bert")
    model: Any = copy.deepcopy(subject.adapter.model)
    kept: list[Any] = []
    pruned(model, kept)
    model.bert.pooler.activation = Pruned(torch.tanh)
    own = F.scaled_dot_product_attention

    def attend(q: Tensor, k: Tensor, v: Tensor, **more: Any) -> Tensor:
        return own(q.detach(), k.detach(), v, **more)

    model.bert.embeddings.word_embeddings.register_forward_hook(lambda m, a, out: out.detach().requires_grad_())
    taken: dict[str, Tensor] = {}
    model.bert.embeddings.LayerNorm.register_forward_pre_hook(lambda m, a: taken.update(x=a[0]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(F, "scaled_dot_product_attention", attend)
        value = subject.target.value(model(**subject.encoded.inputs).logits[:, None])[0]
    found = torch.autograd.grad(value, [taken["x"], *kept], allow_unused=True)
    by_input = (taken["x"] * found[0]).sum(-1)[0].detach()
    length, total, rest = len(subject.encoded), by_input.clone(), 0.0
    for own_bias, gradient in zip(kept, found[1:], strict=True):
        if gradient is None:  # of queries and keys
            continue
        share = (own_bias * gradient).sum(-1).detach()
        if share.shape == (1, length):
            total += share[0]
        else:
            rest += float(share.sum())
    libra = make_method("libragrad").attribute([subject])[0]
    np.testing.assert_allclose(libra.scores, total.numpy(), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(
        make_method("cp-lrp", readout="sum").attribute([subject])[0].scores, by_input.numpy(), rtol=1e-8, atol=1e-10
    )
    # FullGrad is complete: what is left are the biases of the pooler and the classifier.
    assert libra.residual == pytest.approx(rest, abs=1e-9)
    assert abs(rest) > 1e-6


def test_a_decoder_whose_layers_flatten_positions() -> None:
    """GPT-2 puts positions into the batch inside its layers; its read-out has no bias, so that nothing is left."""
    subject = subject_of("gpt2")
    (found,) = make_method("libragrad").attribute([subject])
    assert found.residual == pytest.approx(0.0, abs=1e-9)

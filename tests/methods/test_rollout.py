"""Attention rollout against the literal product of the attention that the model itself hands out."""

import copy
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from looprop.errors import InputError
from looprop.methods.registry import make_method
from looprop.methods.rollout import attention_maps, rollout
from looprop.models.subject import Subject, bind
from looprop.models.tensor_module import TensorModule
from removal.naive import subject_of


def own_maps(subject: Subject) -> list[np.ndarray]:
    """The weights (H, T, T) of every layer as an eager copy of the model returns them."""
    model: Any = copy.deepcopy(subject.adapter.model)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        output = model(**subject.encoded.inputs, output_attentions=True)
    return [weights[0].double().numpy() for weights in output.attentions]


def by_hand(maps: list[np.ndarray], *, residual: bool) -> np.ndarray:
    length = maps[0].shape[-1]
    flow = np.eye(length)
    for weights in maps:
        mean = np.zeros((length, length))
        for head in weights:
            mean += head / len(weights)
        flow = (0.5 * mean + 0.5 * np.eye(length) if residual else mean) @ flow
    return flow


@pytest.mark.parametrize(
    "family",
    [
        "bert",
        "roberta",
        "distilbert",
        "albert",
        "modernbert",
        "mpnet",
        "deberta-v2",
        "gpt2",
        "llama",
        "qwen3",
        "gemma3",
    ],
)
def test_the_weights_are_the_models_own(family: str) -> None:
    subject = subject_of(family)
    for found, wanted in zip(attention_maps(subject), own_maps(subject), strict=True):
        np.testing.assert_allclose(
            found.numpy(), wanted, atol=1e-6
        )  # some models take their softmax in single precision


@pytest.mark.parametrize("residual", [True, False])
def test_both_forms_on_a_bert(residual: bool) -> None:
    subject = subject_of("bert")
    (found,) = make_method("rollout", residual=residual).attribute([subject])
    np.testing.assert_allclose(found.scores, by_hand(own_maps(subject), residual=residual)[0], atol=1e-9)
    assert found.scores.sum() == pytest.approx(1.0)
    assert (found.cost, found.residual) == (1.0, None)


def test_the_residual_form_is_the_default() -> None:
    subject = subject_of("bert")
    default, plain = (
        make_method("rollout", **options).attribute([subject])[0].scores for options in ({}, {"residual": False})
    )
    np.testing.assert_allclose(default, by_hand(own_maps(subject), residual=True)[0], atol=1e-9)
    assert np.abs(default - plain).max() > 1e-3


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_causal_models_are_read_off_at_the_last_row(family: str, residual: bool) -> None:
    subject = subject_of(family)
    (found,) = make_method("rollout", residual=residual).attribute([subject])
    np.testing.assert_allclose(found.scores, by_hand(own_maps(subject), residual=residual)[-1], atol=1e-6)


def test_a_continuation_is_read_off_where_its_tokens_are_predicted() -> None:
    subject = subject_of("gpt2", length=9, continuation=2)
    (found,) = make_method("rollout").attribute([subject])
    flow = by_hand(own_maps(subject), residual=True)
    np.testing.assert_allclose(found.scores, flow[[6, 7], :7].mean(0), atol=1e-6)


def test_an_image_is_read_off_at_its_class_token() -> None:
    subject = subject_of("vit")
    (found,) = make_method("rollout").attribute([subject])
    np.testing.assert_allclose(found.scores, by_hand(own_maps(subject), residual=True)[0, 1:], atol=1e-9)


def test_features_are_sums() -> None:
    subject = subject_of("bert", features="chunk:4")
    (found,) = make_method("rollout").attribute([subject])
    flow = by_hand(own_maps(subject), residual=True)[0]
    np.testing.assert_allclose(found.scores, [flow[:4].sum(), flow[4:8].sum(), flow[8:].sum()], atol=1e-9)


def test_the_product_goes_from_the_first_layer_to_the_last() -> None:
    first, last = torch.tensor([[0.5, 0.5], [0.0, 1.0]]), torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert rollout([first, last], residual=False).tolist() == [[0.0, 1.0], [0.5, 0.5]]


def test_no_meaning_for_plain_tensors() -> None:
    with pytest.raises(InputError, match="rollout has no meaning for a plain tensor model"):
        make_method("rollout").attribute([bind(TensorModule(nn.Linear(3, 2)), torch.ones(3))])


def test_nothing_is_left_on_the_model() -> None:
    subject = subject_of("bert")
    model = subject.adapter.model.train()
    make_method("rollout").attribute([subject])
    assert all(module.training for module in model.modules())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())


def test_heads_that_are_folded_into_the_batch_all_count() -> None:
    """torch's own attention, asked for its weights, writes them as (B H, T, T): of one input these are H heads, not
    one.
    """
    subject = subject_of("torch-encoder")
    fused = attention_maps(subject)
    by_looprop = make_method("looprop").attribute([subject])[0].scores
    for module in subject.adapter.model.modules():
        if isinstance(module, nn.MultiheadAttention):
            module.forward = partial(_with_weights, module.forward)  # type: ignore[method-assign]
    written = attention_maps(subject)
    for one, other in zip(fused, written, strict=True):
        assert one.shape == other.shape == (4, len(subject.encoded), len(subject.encoded))
        np.testing.assert_allclose(one.numpy(), other.numpy(), atol=1e-12)
    np.testing.assert_allclose(make_method("looprop").attribute([subject])[0].scores, by_looprop, atol=1e-12)


def _with_weights(forward: Any, *args: Any, **options: Any) -> Any:
    return forward(*args, **{**options, "need_weights": True})

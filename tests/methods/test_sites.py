"""Attention written in many ways, in one miniature: what rollout and looprop understand of it is right, the rest is
refused by name.

With one layer, a linear read-out of the first row and no residual, the effect of barring a key is exact to first order:
looprop without any exact row must give leave-one-out for every token but the first, which is read out.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import looprop
from looprop.errors import InputError
from looprop.methods.registry import make_method
from looprop.models.heads.text_classifier import TextClassifier
from looprop.models.subject import Subject, new_subject
from looprop.models.target import Target
from removal.naive import TOKENIZER, encode

WIDTH, HEADS = 8, 2
SIZE = WIDTH // HEADS


class Miniature(nn.Module):
    """Layers of nothing but attention; way: how one layer computes it from queries, keys, values and a mask."""

    def __init__(self, way: Callable[..., Tensor], layers: int = 1, *, positions: int = 0) -> None:
        super().__init__()
        self.way, self.extra = way, positions
        self.embedding, self.head = nn.Embedding(40, WIDTH), nn.Linear(WIDTH, 3)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(layers))
        self.sinks = nn.Parameter(torch.randn(HEADS))
        self.prompt = nn.Parameter(torch.randn(1, positions, WIDTH))

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x = self.embedding(input_ids)
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        if self.extra:
            x = torch.cat([self.prompt.expand(len(x), -1, -1), x], 1)
            mask = torch.cat([mask.new_ones(len(x), self.extra), mask], 1)
        for layer in self.layers:
            query, key, value = (t.unflatten(-1, (HEADS, SIZE)).transpose(1, 2) for t in layer(x).chunk(3, -1))
            out = self.way(self, query, key, value, mask[:, None, None] == 0)
            x = out.transpose(1, 2).flatten(2)
        return self.head(x[:, 0])


def weights_of(query: Tensor, key: Tensor, barred: Tensor) -> Tensor:
    scores = query @ key.transpose(-2, -1) / math.sqrt(SIZE)
    return scores.masked_fill(barred, -math.inf).softmax(-1)


def fused(model: Any, query: Tensor, key: Tensor, value: Tensor, barred: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=~barred)


def written(model: Any, query: Tensor, key: Tensor, value: Tensor, barred: Tensor) -> Tensor:
    return weights_of(query, key, barred) @ value


def with_letters(model: Any, query: Tensor, key: Tensor, value: Tensor, barred: Tensor) -> Tensor:
    weights = weights_of(query, key, barred)
    return torch.einsum("bhqk,bkhd->bqhd", weights, value.transpose(1, 2)).transpose(1, 2)


def folded(model: Any, query: Tensor, key: Tensor, value: Tensor, barred: Tensor) -> Tensor:
    size = query.shape[:2]
    query, key, value = (t.flatten(0, 1) for t in (query, key, value))
    scores = torch.bmm(query, key.transpose(1, 2)) / math.sqrt(SIZE)
    scores = scores.view(*size, *scores.shape[1:]).masked_fill(barred, -math.inf)
    return torch.bmm(scores.softmax(-1).flatten(0, 1), value).unflatten(0, size)


def with_sink(model: Any, query: Tensor, key: Tensor, value: Tensor, barred: Tensor) -> Tensor:
    scores = (query @ key.transpose(-2, -1) / math.sqrt(SIZE)).masked_fill(barred, -math.inf)
    sink = model.sinks.view(1, -1, 1, 1).expand(len(scores), -1, scores.shape[2], 1)
    return torch.cat([scores, sink], -1).softmax(-1)[..., :-1] @ value


def twice(model: Any, query: Tensor, key: Tensor, value: Tensor, barred: Tensor) -> Tensor:
    """The same weights on two sets of values, one layer."""
    halves = value.chunk(2, -1)
    return torch.cat([functional.scaled_dot_product_attention(query, key, v, attn_mask=~barred) for v in halves], -1)


def class_token(model: Any, query: Tensor, key: Tensor, value: Tensor, barred: Tensor) -> Tensor:
    return fused(model, query[:, :, :1], key, value, barred)


def in_pieces(model: Any, query: Tensor, key: Tensor, value: Tensor, barred: Tensor) -> Tensor:
    return torch.cat([written(model, part, key, value, barred) for part in query.split(3, 2)], 2)


def talking(model: Any, query: Tensor, key: Tensor, value: Tensor, barred: Tensor) -> Tensor:
    weights = weights_of(query, key, barred)
    return (0.7 * weights + 0.3 * weights.flip(1)) @ value


def transposed(model: Any, query: Tensor, key: Tensor, value: Tensor, barred: Tensor) -> Tensor:
    return weights_of(query, key, barred).transpose(-2, -1) @ value


def two_flows(model: Any, query: Tensor, key: Tensor, value: Tensor, barred: Tensor) -> Tensor:
    return fused(model, query, key, value, barred) + fused(model, key, query, value, barred)


def first_without_gradient(model: Any, query: Tensor, key: Tensor, value: Tensor, barred: Tensor) -> Tensor:
    with torch.no_grad():
        warm = fused(model, query, key, value, barred)
    return fused(model, query, key, value, barred) + warm


def deaf(model: Any, query: Tensor, key: Tensor, value: Tensor, barred: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(query, key, value)


WAYS = {f.__name__: f for f in (fused, written, with_letters, folded, with_sink, twice, class_token)}


def subject_of(way: Callable[..., Tensor], layers: int = 1, *, length: int = 9, positions: int = 0) -> Subject:
    torch.manual_seed(0)
    model = Miniature(way, layers, positions=positions).double().eval()
    ids = torch.randint(5, 40, (1, length), generator=torch.Generator().manual_seed(length))
    adapter = TextClassifier(model, TOKENIZER)
    return new_subject(adapter, encode(ids), Target((1,), "1"), tuple((i,) for i in range(length)))


def leave_one_out(subject: Subject) -> np.ndarray:
    """By the model's own mask, one token at a time."""
    model, ids = subject.adapter.model, subject.encoded.inputs["input_ids"]
    with torch.no_grad():
        whole = float(model(ids)[0, 1])
        masks = 1 - torch.eye(ids.shape[1], dtype=torch.long)
        return np.array([whole - float(model(ids, mask[None])[0, 1]) for mask in masks])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("length", [5, 12])
def test_first_order_is_exact_in_one_layer(way: str, length: int) -> None:
    subject = subject_of(WAYS[way], length=length)
    found = make_method("looprop", rows=0).attribute([subject])[0].scores
    np.testing.assert_allclose(found[1:], leave_one_out(subject)[1:], atol=1e-12)


@pytest.mark.parametrize("way", ["fused", "written", "folded", "twice", "with_sink"])
@pytest.mark.parametrize("length", [5, 12, 33])
def test_all_rows_are_leave_one_out_in_three_layers(way: str, length: int) -> None:
    subject = subject_of(WAYS[way], 3, length=length)
    found = make_method("looprop", rows="all").attribute([subject])[0].scores
    np.testing.assert_allclose(found, leave_one_out(subject), atol=1e-9)


def maps_by_hand(model: Any, ids: Tensor, *, sink: bool = False) -> list[np.ndarray]:
    """Head-averaged weights of every layer, by loops over rows."""
    x, maps = model.embedding(ids)[0], []
    for layer in model.layers:
        query, key, value = (t.view(-1, HEADS, SIZE) for t in layer(x).chunk(3, -1))
        mean, out = np.zeros((len(x), len(x))), torch.zeros_like(query)
        for h in range(HEADS):
            for j in range(len(x)):
                scores = [float(query[j, h] @ key[i, h]) / math.sqrt(SIZE) for i in range(len(x))]
                total = sum(map(math.exp, scores)) + (math.exp(float(model.sinks[h])) if sink else 0.0)
                for i, score in enumerate(scores):
                    mean[j, i] += math.exp(score) / total / HEADS
                    out[j, h] += math.exp(score) / total * value[i, h]
        maps.append(mean)
        x = out.flatten(1)
    return maps


@pytest.mark.parametrize("way", ["fused", "written", "with_letters", "folded", "with_sink", "twice"])
def test_rollout_is_the_product_of_layers(way: str) -> None:
    subject = subject_of(WAYS[way], 3)
    found = make_method("rollout").attribute([subject])[0].scores
    flow = np.eye(9)
    with torch.no_grad():
        maps = maps_by_hand(subject.adapter.model, subject.encoded.inputs["input_ids"], sink=way == "with_sink")
    for weights in maps:
        flow = (weights + np.eye(9)) / 2 @ flow
    np.testing.assert_allclose(found, flow[0], atol=1e-12)
    assert (found.sum() < 0.99) == (way == "with_sink")  # what a sink takes is no feature's


@pytest.mark.parametrize(
    ("way", "words"),
    [
        (class_token, "every position on every other"),
        (in_pieces, "in pieces"),
        (talking, "site 1 of Miniature are mixed, changed"),
        (transposed, "site 1 of Miniature are mixed, changed"),
        (two_flows, "more than one stream"),
        (first_without_gradient, "gradients turned off"),
    ],
)
def test_rollout_refuses_what_it_does_not_understand(way: Callable[..., Tensor], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make_method("rollout").attribute([subject_of(way, 1 if way is class_token else 2)])


def test_rollout_refuses_positions_that_are_none_of_the_input() -> None:
    with pytest.raises(InputError, match=r"\(9, 9\), and Miniature has \(13, 13\)"):
        make_method("rollout").attribute([subject_of(fused, 2, positions=4)])


@pytest.mark.parametrize(
    ("way", "words"),
    [
        (in_pieces, "in pieces"),
        (talking, "do not meet the values once"),
        (transposed, "do not meet the values once"),
        (first_without_gradient, "gradients turned off"),
        (deaf, "takes no notice of the mask"),
    ],
)
def test_looprop_refuses_what_it_does_not_understand(way: Callable[..., Tensor], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make_method("looprop[rows=0]").attribute([subject_of(way, 2)])


def test_looprop_refuses_keys_that_are_none_of_the_input() -> None:
    with pytest.raises(InputError, match="has 13 keys where the input has 9 positions"):
        make_method("looprop[rows=0]").attribute([subject_of(fused, 2, positions=4)])


@pytest.mark.parametrize("method", ["looprop", "rollout"])
def test_plain_tensors_are_refused(method: str) -> None:
    def attend(x: Tensor) -> Tensor:
        return ((x @ x.transpose(1, 2)).softmax(-1) @ x)[:, 0, :2]

    with pytest.raises(InputError, match="no meaning for a plain tensor model"):
        looprop.attribute(attend, torch.randn(2, 3, 6), method, target=0)


def test_a_flow_that_the_answer_does_not_use_has_no_effect() -> None:
    def beside(model: Any, *given: Tensor) -> Tensor:
        model.unused = fused(model, given[1], given[0], given[2], given[3])
        return fused(model, *given)

    subject = subject_of(beside)
    found = make_method("looprop", rows=0).attribute([subject])[0].scores
    np.testing.assert_allclose(found[1:], leave_one_out(subject)[1:], atol=1e-12)


@pytest.mark.parametrize(("way", "layers"), [(fused, 3), (twice, 3)])
def test_layers_are_counted_and_not_calls(way: Callable[..., Tensor], layers: int) -> None:
    subject = subject_of(way, layers)
    assert subject.adapter.attention_layers(subject.encoded) == layers
    every = make_method("lrp", cp=f"1-{layers}").attribute([subject])[0].scores
    np.testing.assert_allclose(every, make_method("cp-lrp").attribute([subject])[0].scores, atol=1e-12)


def test_removal_counts_the_calls() -> None:
    class WithoutMask(Miniature):
        def forward(self, input_ids: Tensor) -> Tensor:  # type: ignore[override]
            return super().forward(input_ids)

    masked = subject_of(twice, 2)
    without = WithoutMask(twice, 2).double().eval()
    without.load_state_dict(masked.adapter.model.state_dict())
    encoded = replace(masked.encoded, inputs={"input_ids": masked.encoded.inputs["input_ids"]})
    subject = new_subject(TextClassifier(without, TOKENIZER), encoded, masked.target, masked.features)
    np.testing.assert_allclose(make_method("loo").attribute([subject])[0].scores, leave_one_out(masked), atol=1e-12)

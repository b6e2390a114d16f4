"""Each safety net alone: a model for which only one of them stands between a shortcut and a wrong number.

A first text, without the marked word, teaches looprop that a shortcut holds. On the marked word the model then does
something for which it does not. Every number is compared with a loop that runs the model once for each variant.
"""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers.modeling_outputs import CausalLMOutput

import looprop
from looprop.errors import InputError
from removal.odd_models import Centred, Encoder
from tiny import wordpiece

LETTERS = "abcdefghijklmnopqrstuvwxyz"
MARK, KEY = "is", "not"
TOKENIZER = wordpiece()
MARK_ID, KEY_ID = TOKENIZER.convert_tokens_to_ids([MARK, KEY])


def text(*words: str, length: int = 24) -> str:
    """Letters, each one token, with some words spread among them."""
    tokens = [LETTERS[(7 * i) % 26] for i in range(length)]
    for number, word in enumerate(words):
        tokens[5 + 9 * number] = word
    return " ".join(tokens)


def ids_of(item: str) -> Tensor:
    return torch.tensor([TOKENIZER(item)["input_ids"]])


@torch.no_grad()
def values(model: nn.Module, item: str, keep: np.ndarray) -> np.ndarray:
    """The target by the model's own mask, one variant at a time."""
    ids = ids_of(item)
    places = torch.arange(ids.shape[1])[None]
    rows = [model(ids, torch.from_numpy(row[None].astype(np.int64)), places) for row in keep]
    return np.array([float(getattr(row, "logits", row)[0, ..., 1].flatten()[-1]) for row in rows])


def leave_one_out(model: nn.Module, item: str) -> np.ndarray:
    count = ids_of(item).shape[1]
    return values(model, item, np.ones((1, count), bool)) - values(model, item, ~np.eye(count, dtype=bool))


def marked(ids: Tensor) -> Tensor:
    """(B, 1)"""
    return (ids == MARK_ID).any(1, keepdim=True)


class Marked(Encoder):
    """Reads one row; where the text has the marked word, `more` is added to it."""

    row = 0

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None
    ) -> Tensor:
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        places = torch.arange(input_ids.shape[1])[None] if position_ids is None else position_ids
        embedded = self.embedding(input_ids) + self.position_embeddings(places)
        hidden = embedded
        for number in range(2):
            hidden = self.layer(number, hidden, mask)
        added = torch.where(self.condition(input_ids, mask), self.more(embedded, hidden), 0.0)
        return self.head(self.taken(hidden) + added)

    def taken(self, hidden: Tensor) -> Tensor:
        return hidden[:, self.row]

    def condition(self, ids: Tensor, mask: Tensor) -> Tensor:
        return marked(ids)

    def more(self, embedded: Tensor, hidden: Tensor) -> Tensor:
        raise NotImplementedError


class EmbeddingsOfAll(Marked):
    """The mean of all embeddings, those of removed tokens too: right with nothing removed, wrong where rows go."""

    row = -1

    def more(self, embedded: Tensor, hidden: Tensor) -> Tensor:
        return 3 * embedded.mean(1)


class RowsOfAll(Marked):
    """The mean of all rows after the last layer, of which a shortcut computes the one that is read."""

    def more(self, embedded: Tensor, hidden: Tensor) -> Tensor:
        return 3 * hidden.mean(1)


class RowsOfAllWithKey(RowsOfAll):
    """Only while the key is kept. Counts what is kept, so that variants cannot be packed into one sequence."""

    def layer(self, number: int, hidden: Tensor, mask: Tensor | None) -> Tensor:
        assert mask is not None
        return super().layer(number, hidden + 0.01 * number * mask.sum(1)[:, None, None], mask)

    def condition(self, ids: Tensor, mask: Tensor) -> Tensor:
        return marked(ids) & ((ids == KEY_ID) & (mask != 0)).any(1, keepdim=True)


class RowsOfAllForCausalLM(RowsOfAll):
    """A decoder: every row answers, and sees those before it."""

    def layer(self, number: int, hidden: Tensor, mask: Tensor | None) -> Tensor:
        query, key, value, out = self.projections[4 * number : 4 * number + 4]
        heads = [p(hidden).unflatten(-1, (2, -1)).transpose(1, 2) for p in (query, key, value)]
        length = hidden.shape[1]
        allowed = torch.ones(length, length, dtype=torch.bool, device=hidden.device).tril()[None, None]
        if mask is not None:
            allowed = allowed & (mask != 0)[:, None, None]
        mixed = nn.functional.scaled_dot_product_attention(*heads, attn_mask=allowed)
        return hidden + out(torch.tanh(mixed.transpose(1, 2).flatten(2)))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return CausalLMOutput(logits=super().forward(*args, **kwargs))

    def taken(self, hidden: Tensor) -> Tensor:
        return hidden

    def condition(self, ids: Tensor, mask: Tensor) -> Tensor:
        return marked(ids)[..., None]

    def more(self, embedded: Tensor, hidden: Tensor) -> Tensor:
        return 3 * hidden.mean(1, keepdim=True)


class StrongerWhereSomethingIsGone(Marked):
    """With the marked word, every second key gains by each token that is removed: with nothing removed, nothing is."""

    def condition(self, ids: Tensor, mask: Tensor) -> Tensor:
        return torch.zeros_like(marked(ids))

    def more(self, embedded: Tensor, hidden: Tensor) -> Tensor:
        return hidden[:, 0]

    def forward(self, input_ids: Tensor, *args: Any, **kwargs: Any) -> Any:
        self.found = marked(input_ids)
        return super().forward(input_ids, *args, **kwargs)

    def layer(self, number: int, hidden: Tensor, mask: Tensor | None) -> Tensor:
        assert mask is not None
        query, key, value, out = self.projections[4 * number : 4 * number + 4]
        heads = [p(hidden).unflatten(-1, (2, -1)).transpose(1, 2) for p in (query, key, value)]
        gone = (mask == 0).to(hidden)
        second = torch.arange(hidden.shape[1]) % 2
        bias = torch.where(self.found, 2.0 * gone.sum(1, keepdim=True) * second, 0.0) - 1e9 * gone
        mixed = nn.functional.scaled_dot_product_attention(*heads, attn_mask=bias[:, None, None])
        return hidden + out(torch.tanh(mixed.transpose(1, 2).flatten(2)))


def test_sentinels_catch_a_shortcut_that_is_right_only_with_nothing_removed() -> None:
    model = EmbeddingsOfAll()
    bench = looprop.load((model, TOKENIZER))
    for item in (text(), text(MARK)):
        ids = ids_of(item)[0].tolist()
        keep = np.random.default_rng(len(ids)).random((24, len(ids))) < 0.7
        keep[:, [0, -1]] = True  # without an end, filling up happens to put its row back
        keep[:, 3] = False
        if MARK_ID in ids:
            keep[:, ids.index(MARK_ID)] = True
        np.testing.assert_allclose(bench.set_function(item, target=1)(keep), values(model, item, keep), atol=1e-8)


def test_an_end_is_looked_at_besides_a_drawn_variant_and_not_instead() -> None:
    """At both ends this shortcut happens to be right: every fourth text had nothing else looked at."""
    for length in range(24, 34):
        model = EmbeddingsOfAll()
        bench = looprop.load((model, TOKENIZER))
        bench.explain(text(length=length), "loo", target=1)
        item = text(MARK, length=length)
        np.testing.assert_allclose(bench.explain(item, "loo", target=1).scores, leave_one_out(model, item), atol=1e-8)


@pytest.mark.parametrize("other", [5, 11, 17])
def test_the_intact_input_catches_a_shortcut_that_is_wrong_on_one_variant(other: int) -> None:
    model, item = RowsOfAllWithKey(), text(MARK, KEY)
    bench = looprop.load((model, TOKENIZER))
    bench.explain(text(), "loo", target=1)
    ids = ids_of(item)[0].tolist()
    keep = np.random.default_rng(other).random((24, len(ids))) < 0.8
    keep[:, ids.index(KEY_ID)] = False
    keep[other, ids.index(KEY_ID)] = True  # on the others the shortcut is right
    found = bench.set_function(item, target=1)(keep)
    np.testing.assert_allclose(found, values(model, item, keep), atol=1e-8)


def without_token(item: str, position: int, removal: str) -> Tensor:
    ids = ids_of(item)
    if removal == "delete":
        return torch.cat([ids[:, :position], ids[:, position + 1 :]], 1)
    ids[0, position] = TOKENIZER.mask_token_id
    return ids


@pytest.mark.parametrize("removal", ["attention-mask", "mask-token", "delete"])
@pytest.mark.parametrize("length", [6, 24])
def test_rows_that_depend_on_their_batch_are_run_one_by_one(removal: Any, length: int) -> None:
    model, item = Centred(), text(length=length)
    found = looprop.load((model, TOKENIZER)).explain(item, "loo", target=1, removal=removal)
    if removal == "attention-mask":
        wanted = leave_one_out(model, item)
    else:
        with torch.no_grad():
            own = float(model(ids_of(item))[0, 1])
            wanted = [own - float(model(without_token(item, i, removal))[0, 1]) for i in range(length + 2)]
    np.testing.assert_allclose(found.scores, wanted, atol=1e-8)


class CentredAndBent(Centred):
    """Slopes depend on the other inputs of a batch, too: those of a sum over a centred batch would not."""

    def read(self, hidden: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        return torch.tanh(2 * super().read(hidden, mask, ids))


@pytest.mark.parametrize("method", ["cp-lrp", "grad-x-input"])
def test_inputs_that_depend_on_their_batch_are_explained_one_by_one(method: str) -> None:
    items = [text(), text(MARK), text(MARK, KEY)]
    together = looprop.load((CentredAndBent(), TOKENIZER)).explain(items, method, target=1)
    for item, found in zip(items, together, strict=True):
        alone = looprop.load((CentredAndBent(), TOKENIZER)).explain(item, method, target=1)
        np.testing.assert_allclose(found.scores, alone.scores, atol=1e-9)


def test_rows_that_cannot_be_carried_on_one_input_are_not() -> None:
    model = RowsOfAllForCausalLM()
    bench = looprop.load((model, TOKENIZER))
    for item, lost in ((text(), False), (text(MARK), True)):
        found = bench.explain(item, "looprop", target=1, budget=6)
        assert ("fell_back" in found.details) == lost
        known = found.details["known"]
        assert known, "features whose score is their true leave-one-out"
        np.testing.assert_allclose(found.scores[known], leave_one_out(model, item)[known], atol=1e-8)


def test_a_variant_whose_rows_are_all_carried_is_compared_with_plain_masking() -> None:
    model = StrongerWhereSomethingIsGone()
    bench = looprop.load((model, TOKENIZER))
    found = bench.explain(text(), "looprop", target=1, rows="all")
    np.testing.assert_allclose(found.scores, leave_one_out(model, text()), atol=1e-8)
    with pytest.raises(InputError, match="cannot be carried"):
        bench.explain(text(MARK), "looprop", target=1, rows="all")


def integrated_gradients(model: Marked, item: str, steps: int) -> np.ndarray:
    """The midpoint rule between no embedding and the word embeddings, point by point."""
    ids, total = ids_of(item), 0.0
    end = model.embedding(ids).detach()
    for step in range(steps):
        point = ((step + 0.5) / steps * end).requires_grad_()
        hook = model.embedding.register_forward_hook(lambda *_, point=point: point)
        try:
            (gradient,) = torch.autograd.grad(model(ids)[0, 1], point)
        finally:
            hook.remove()
        total = total + gradient / steps
    return (end * total).sum(-1)[0].numpy()


def test_a_line_whose_last_layer_is_cut_ends_at_the_answer() -> None:
    model = RowsOfAll()
    bench = looprop.load((model, TOKENIZER))
    for item in (text(), text(MARK)):
        found = bench.explain(item, "ig", target=1, steps=4)
        np.testing.assert_allclose(found.scores, integrated_gradients(model, item, 4), atol=1e-8)

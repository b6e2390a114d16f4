"""Where the answer is read from: found on the model, and what removal, rollout and the remedy make of it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from torch import Tensor, nn

import zoo
from looprop.intercept.reductions import Reduction, completing
from looprop.methods.looprop.first_order import pooled_effect
from looprop.methods.registry import make_method
from looprop.models.answer_rows import AnswerRows
from looprop.models.encoded import partition
from looprop.models.heads.text_classifier import TextClassifier
from looprop.models.subject import Subject, new_subject
from looprop.models.target import Target
from looprop.removal.value import SetFunction
from methods.test_rollout import by_hand, own_maps
from removal.naive import TOKENIZER, encode, everything, leave_one_out, one_by_one, subject_of

SMALL = {"vocab_size": 99, "num_labels": 3, "pad_token_id": 98, "bos_token_id": 1, "eos_token_id": 2}
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}


class SummedUp(nn.Module):
    """An encoder and a masked mean as sentence embeddings take it: sums over rows, one divided by the other."""

    def __init__(self, *, masked: bool = True, counted: bool = True) -> None:
        super().__init__()
        self.encoder = zoo.build("bert").bert  # type: ignore[union-attr]
        self.head, self.masked, self.counted = nn.Linear(32, 3), masked, counted
        self.config = self.encoder.config

    def get_input_embeddings(self) -> nn.Module:
        found: nn.Module = self.encoder.get_input_embeddings()  # type: ignore[operator]
        return found

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None
    ) -> Tensor:
        hidden = self.encoder(input_ids, attention_mask=attention_mask, position_ids=position_ids).last_hidden_state
        if not self.masked:
            return self.head(hidden.mean(dim=1))
        assert attention_mask is not None
        mask = attention_mask[:, :, None].expand(hidden.shape).to(hidden.dtype)
        total = torch.sum(hidden * mask, 1)
        return self.head(total / torch.clamp(mask.sum(1), min=1e-9) if self.counted else total / 11)


class Pooled(SummedUp):
    """Any read-out from states (B, T, D) and mask (B, T)."""

    def __init__(
        self, read: Callable[[Tensor, Tensor], Tensor], *, after: Callable[[Tensor], Tensor] = lambda logits: logits
    ) -> None:
        super().__init__()
        self.read, self.after = read, after

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None
    ) -> Tensor:
        hidden = self.encoder(input_ids, attention_mask=attention_mask, position_ids=position_ids).last_hidden_state
        assert attention_mask is not None
        return self.after(self.head(self.read(hidden, attention_mask)))


MODELS: dict[str, Any] = {
    "gpt2, last row": lambda: hf.GPT2ForSequenceClassification(
        hf.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=64, **SMALL)
    ),
    "llama, last row": lambda: hf.LlamaForSequenceClassification(hf.LlamaConfig(**SIZES, **SMALL)),
    "modernbert, mean": lambda: hf.ModernBertForSequenceClassification(
        hf.ModernBertConfig(**SIZES, **SMALL, cls_token_id=1, sep_token_id=2, classifier_pooling="mean")
    ),
    "bert, mean": SummedUp,
    "bert, sum": lambda: SummedUp(counted=False),
    "bert, mean without a mask": lambda: SummedUp(masked=False),
    "bert, mean of means": lambda: Pooled(
        lambda hidden, mask: (hidden * mask[:, :, None]).mean(1) / mask.double().mean(1, keepdim=True)
    ),
    "bert, mean with a count of flags": lambda: Pooled(
        lambda h, mask: (h * mask[:, :, None]).sum(1) / mask.bool().sum(1, keepdim=True)
    ),
}
# Read from several rows, but not from all: rows of these cannot be carried.
PARTLY: dict[str, Any] = {
    "all but the first": lambda hidden, mask: hidden[:, 1:].mean(1),
    "all but the last": lambda hidden, mask: hidden[:, :-1].mean(1),
    "all but both": lambda hidden, mask: hidden[:, 1:-1].mean(1),
}


def bound(name: str, *, features: str = "token", length: int = 11, adapter: TextClassifier | None = None) -> Subject:
    torch.manual_seed(0)
    encoded = encode(zoo.token_ids(length, seed=length))
    if adapter is None:
        model = MODELS[name]() if name in MODELS else Pooled(PARTLY[name])
        adapter = TextClassifier(model.double().eval(), TOKENIZER)
    return new_subject(adapter, encoded, Target((1,), "1"), partition(encoded, features))


def scores(subject: Subject, method: str, **options: Any) -> np.ndarray:
    (found,) = make_method(method, **options).attribute([subject.alone()])
    return found.scores


@pytest.mark.parametrize("family", sorted([*zoo.ENCODERS, "vit"]))
def test_encoders_are_read_from_their_class_token(family: str) -> None:
    assert subject_of(family).answer_rows == AnswerRows(first=1)


@pytest.mark.parametrize("name", MODELS)
def test_where_others_are_read_from_is_found_on_the_model(name: str) -> None:
    assert bound(name).answer_rows == (AnswerRows(last=1) if "last row" in name else AnswerRows())


def test_a_causal_language_model_is_read_from_the_positions_that_are_asked_for() -> None:
    assert subject_of("llama").answer_rows == AnswerRows(last=1)
    assert subject_of("llama", continuation=3).answer_rows == AnswerRows(last=4)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("features", ["token", "chunk:3"])
def test_removal_equals_the_naive_loop_and_leaves_rows_out(name: str, features: str) -> None:
    subject = bound(name, features=features, length=22)  # shorter ones that look at their token ids run plainly
    keep = everything(len(subject.features))
    value = SetFunction(subject)
    np.testing.assert_allclose(value(keep), one_by_one(subject, keep), atol=1e-9)
    assert (value.way == "plain") == (name == "bert, mean without a mask"), (
        "there every row is read, also those removed"
    )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("features", ["token", "chunk:3"])
def test_all_rows_are_leave_one_out(name: str, features: str) -> None:
    subject = bound(name, features=features)
    count = len(subject.features)
    wanted = one_by_one(subject, np.ones((1, count), dtype=bool)) - one_by_one(subject, leave_one_out(count))
    assert np.ptp(wanted) > 1e-3
    np.testing.assert_allclose(scores(subject, "looprop", rows="all"), wanted, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_a_few_rows_come_close(name: str) -> None:
    subject = bound(name)
    loo = scores(subject, "loo")
    errors = [np.abs(scores(subject, "looprop", rows=rows) - loo).max() / np.abs(loo).max() for rows in (0, 2, 6)]
    assert errors[0] < 0.4
    assert max(errors[1:]) < 0.05


@pytest.mark.parametrize("name", PARTLY)
def test_several_rows_but_not_all_go_without_exact_rows(name: str) -> None:
    subject = bound(name)
    loo = scores(subject, "loo")
    np.testing.assert_allclose(SetFunction(subject)(everything(11)), one_by_one(subject, everything(11)), atol=1e-9)
    (found,) = make_method("looprop", rows=8).attribute([subject])
    assert found.details["rows"] == 0.0
    assert np.corrcoef(found.scores, loo)[0, 1] > 0.9


def test_another_length_is_read_anew() -> None:
    for first, second in ((6, 11), (11, 5)):
        one = bound("all but the last", length=first)
        two = bound("all but the last", length=second, adapter=one.adapter)
        assert one.answer_rows.rows(first) == list(range(first - 1))
        assert two.answer_rows.rows(second) == list(range(max(1, second - 1)))


def test_what_does_not_fit_into_memory_once_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = bound("gpt2, last row")
    with monkeypatch.context() as short:
        short.setattr(
            type(subject.adapter), "answer_rows", lambda *_, **__: (_ for _ in ()).throw(torch.OutOfMemoryError())
        )
        assert subject.alone().answer_rows == AnswerRows(first=1)
    assert subject.answer_rows == AnswerRows(last=1)


def test_means_over_classes_and_means_nobody_asks_for_are_no_read_out() -> None:
    def read(hidden: Tensor, mask: Tensor) -> Tensor:
        hidden.mean(1)  # a pooler that nobody reads
        return (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)

    torch.manual_seed(0)
    model = Pooled(read, after=lambda logits: logits - logits.mean(1, keepdim=True)).double().eval()
    subject = bound("", features="chunk:3", adapter=TextClassifier(model, TOKENIZER))
    loo = scores(subject, "loo")
    for rows in (0, 1, 3, "all"):  # three rows are as many as there are classes
        assert np.corrcoef(scores(subject, "looprop", rows=rows), loo)[0, 1] > 0.95
    np.testing.assert_allclose(scores(subject, "looprop", rows="all"), loo, atol=1e-9)


def test_a_read_out_that_the_mask_moves_is_found_out() -> None:
    def read(hidden: Tensor, mask: Tensor) -> Tensor:
        last = (mask * torch.arange(mask.shape[1])).argmax(1)
        return hidden[torch.arange(len(hidden)), last]

    torch.manual_seed(0)
    subject = bound("", adapter=TextClassifier(Pooled(read).double().eval(), TOKENIZER))
    assert subject.answer_rows == AnswerRows(last=1)
    (found,) = make_method("looprop", rows=3).attribute([subject])
    assert found.details["rows"] == 0.0
    np.testing.assert_allclose(SetFunction(subject)(everything(11)), one_by_one(subject, everything(11)), atol=1e-9)


def test_a_model_taken_for_one_that_reads_another_row_is_found_out() -> None:
    subject = bound("gpt2, last row")
    subject.adapter.ledger.answer_rows[subject.path] = AnswerRows(first=1)
    (found,) = make_method("looprop", rows=3).attribute([subject])
    assert found.details["rows"] == 0.0
    assert SetFunction(subject).way == "plain"


def test_a_text_that_ends_with_the_padding_token_is_read_elsewhere() -> None:
    """After another text was seen, and with the proofs of that one: values must still be those of plain masking."""
    before = bound("gpt2, last row")
    SetFunction(before)(everything(11))
    ids = before.encoded.inputs["input_ids"].clone()
    ids[0, -1] = 98
    after = replace(before, encoded=encode(ids)).of(before.adapter)
    assert before.answer_rows == AnswerRows(last=1)
    assert after.answer_rows == AnswerRows(inside=(9,))
    keep = everything(11)
    np.testing.assert_allclose(SetFunction(after)(keep), one_by_one(after, keep), atol=1e-9)
    loo = scores(after, "loo")
    np.testing.assert_allclose(scores(after, "looprop", rows="all"), loo, atol=1e-9)
    assert np.corrcoef(scores(after, "looprop", rows=3), loo)[0, 1] > 0.99


@pytest.mark.parametrize("residual", [True, False])
def test_rollout_is_read_from_the_same_rows(residual: bool) -> None:
    for name, row in (("gpt2, last row", [-1]), ("modernbert, mean", list(range(11)))):
        subject = bound(name)
        wanted = by_hand(own_maps(subject), residual=residual)[row].mean(0)
        np.testing.assert_allclose(scores(subject, "rollout", residual=residual), wanted, atol=1e-6)


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("mean", [True, False])
def test_leaving_a_mean_in_literal_loops(counted: bool, mean: bool) -> None:
    """f = < w, sum of x_j [/ number of rows] > is linear: its first order is the truth."""
    generator = torch.Generator().manual_seed(4)
    rows = torch.randn(1, 6, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    weight = torch.randn(3, dtype=torch.float64, generator=generator)
    member = torch.tensor([[1, 0, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]]).bool()

    def value(kept: list[int]) -> float:
        total = 0.0
        for j in kept:
            for d in range(3):
                total += float(weight[d] * rows[0, j, d].detach())
        return total / len(kept) if counted else total / 6 if mean else total

    wanted = [value(list(range(6))) - value([j for j in range(6) if not member[group, j]]) for group in range(3)]
    reductions = [Reduction(mean, rows, rows.mean(1) if mean else rows.sum(1))]
    if counted:
        ones = torch.ones(1, 6)
        reductions.append(Reduction(mean, ones, ones.mean(1) if mean else ones.sum(1)))
    gradient = weight[None] / 6 if counted and not mean else weight[None]
    np.testing.assert_allclose(pooled_effect(reductions, [gradient], member).detach(), wanted, atol=1e-12)


@pytest.mark.parametrize("keepdim", [True, False])
def test_sums_over_some_rows_count_the_others_as_they_were(keepdim: bool) -> None:
    generator = torch.Generator().manual_seed(5)
    whole = torch.randn(6, 3, generator=generator)
    rows = torch.tensor([[1, 4], [2, 2]])  # of the second variant one row only fills up
    real = torch.tensor([[True, True], [True, False]])
    own = torch.randn(2, 2, 3, generator=generator)
    for mean in (False, True):
        with completing([whole], rows, real):
            found = own.mean(1, keepdim=keepdim) if mean else own.sum(dim=-2, keepdim=keepdim)
        for variant in range(2):
            complete = whole.clone()
            for place in range(2):
                if real[variant, place]:
                    complete[rows[variant, place]] = own[variant, place]
            wanted = complete.mean(0) if mean else complete.sum(0)
            torch.testing.assert_close(found[variant].flatten(), wanted)

"""Variants of several texts in one batch: each gets what it gets by itself, and some are checked."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import zoo
from looprop import load
from looprop.methods.loo import LeaveOneOut
from looprop.models.adapter import Adapter
from looprop.models.encoded import partition
from looprop.models.subject import Subject, new_subject
from looprop.models.target import Target
from looprop.removal.shortcuts.choose import Shortcut
from looprop.removal.trust import allowed_error
from looprop.removal.value import SetFunction
from removal.naive import adapter_of, encode

LENGTHS = (5, 9, 7, 7, 4, 8, 5, 6, 9, 7)


def texts(adapter: Adapter, lengths: tuple[int, ...] = LENGTHS) -> list[Subject]:
    found = []
    for number, length in enumerate(lengths):
        ids = torch.randint(5, 90, (1, length), generator=torch.Generator().manual_seed(number))
        encoded = encode(ids)
        found.append(new_subject(adapter, encoded, Target((1,), "1"), partition(encoded)))
    return found


def count_joint(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts ran in each common batch."""
    from looprop.removal import many_texts

    met: list[int] = []
    own = many_texts._run

    def run(batch: list[Any]) -> None:
        met.append(len(batch))
        own(batch)

    monkeypatch.setattr(many_texts, "_run", run)
    return met


@pytest.mark.parametrize("family", ["bert", "distilbert", "roberta", "llama", "gpt2", "modernbert"])
def test_together_is_one_by_one(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    met = count_joint(monkeypatch)
    alone = [LeaveOneOut().attribute([s])[0] for s in texts(adapter_of(family, zoo.build(family)))]
    assert not met
    together = LeaveOneOut().attribute(texts(adapter_of(family, zoo.build(family))))
    assert sum(met) == (1 if family == "modernbert" else 10), "one text of that family is long enough for a shortcut"
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(other.scores, one.scores, atol=1e-9)
        assert other.cost == one.cost
        assert other.details["removal"]["way"] == one.details["removal"]["way"]


def test_the_order_of_texts_changes_nothing_but_rounding() -> None:
    adapter = adapter_of("bert", zoo.build("bert"))
    forwards = LeaveOneOut().attribute(texts(adapter))
    backwards = LeaveOneOut().attribute(texts(adapter)[::-1])[::-1]
    for one, other in zip(forwards, backwards, strict=True):
        np.testing.assert_allclose(other.scores, one.scores, atol=1e-9)


def test_texts_are_checked_now_and_then() -> None:
    adapter = adapter_of("bert", zoo.build("bert"))
    found = LeaveOneOut().attribute(texts(adapter, (8,) * 40))
    checked = [a.details["removal"]["checked"] for a in found]
    assert checked[0]
    assert all(any(checked[i : i + 5]) for i in range(36)), "no five texts go by unchecked"
    assert sum(checked[1:]) <= 0.1 * 8 * 39


@pytest.mark.parametrize(("length", "most"), [(8, 0.1), (32, 0.05)])
def test_checks_compute_a_small_share_of_the_rows(length: int, most: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted on the model: what it computes beside the input itself and one variant for each token. The first text is
    not counted.
    """
    bench, computed = load(), 0.0
    own = bench.model.forward

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal computed
        computed += kwargs["input_ids"].numel() / length
        return own(*args, **kwargs)

    words = "good bad film not very this that one all story plot actor fun dull love hate".split()
    items = [" ".join(words[(i * step + step) % 16] for i in range(length - 2)) for step in range(1, 25)]
    monkeypatch.setattr(bench.model, "forward", counted)
    assert len(bench.explain(items[0], "loo", target=1).features) == length
    computed = 0.0
    for item in items[1:]:
        bench.explain(item, "loo", target=1)
    # One forward pass for each text; each variant has a row less than its text, but for the one without the read-out.
    asked = len(items[1:]) * (1 + (length - 1) * (length - 1) / length + 1)
    assert asked < computed <= asked * (1 + most)


def test_a_run_in_less_precision_takes_nobodys_turn_to_be_checked() -> None:
    adapter = adapter_of("bert", zoo.build("bert", dtype=torch.float32))
    rough, own = texts(adapter, (7, 7))
    assert not LeaveOneOut(precision="bfloat16").attribute([rough])[0].details["removal"]["checked"]
    assert LeaveOneOut().attribute([own])[0].details["removal"]["checked"]


def test_long_texts_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    met = count_joint(monkeypatch)
    adapter = adapter_of("bert", zoo.build("bert"))
    found = LeaveOneOut().attribute(texts(adapter, (24, 24, 24)))
    assert not met
    assert any(a.details["removal"]["checked"] for a in found[1:])


def test_what_fails_together_is_computed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = adapter_of("bert", zoo.build("bert"))
    wanted = LeaveOneOut().attribute(texts(adapter))

    def fail(of: Any) -> Any:
        raise RuntimeError("no such batch")

    own = Shortcut.__init__

    def broken(self: Shortcut, *args: Any, **kwargs: Any) -> None:
        own(self, *args, **{**kwargs, "together": fail})

    monkeypatch.setattr(Shortcut, "__init__", broken)
    for one, other in zip(wanted, LeaveOneOut().attribute(texts(adapter)), strict=True):
        np.testing.assert_allclose(other.scores, one.scores, atol=1e-9)


def test_values_known_already_are_not_computed_again() -> None:
    subjects = texts(adapter_of("bert", zoo.build("bert")))
    LeaveOneOut().attribute(subjects)
    again = LeaveOneOut().attribute(subjects)
    assert [a.cost for a in again] == [0.0] * len(subjects)
    assert all(SetFunction(s).count.computed == len(s.features) for s in subjects)


class ByLength(nn.Module):
    """Another answer to texts of more than seven rows, by another operation."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner, self.config = inner, inner.config

    def get_input_embeddings(self) -> Any:
        return self.inner.get_input_embeddings()

    def forward(self, input_ids: Any, attention_mask: Any = None, position_ids: Any = None) -> Any:
        logits = self.inner(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids).logits
        return SimpleNamespace(logits=3 * logits.tanh() if input_ids.shape[1] > 7 else logits)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_texts_of_two_paths_share_no_batch(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    met, lengths = count_joint(monkeypatch), (9, 9, 5, 5, 9, 5, 9, 5)
    together = LeaveOneOut().attribute(texts(adapter_of(family, ByLength(zoo.build(family))), lengths))
    assert met == [4, 4]
    alone = texts(adapter_of(family, ByLength(zoo.build(family))), lengths)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(other.scores, LeaveOneOut().attribute([one])[0].scores, atol=1e-9)


def test_a_batch_with_a_check_that_fails_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ninth text is checked, and shows that the shortcut is wrong: all texts run without it."""
    adapter = adapter_of("bert", zoo.build("bert"))
    wanted = LeaveOneOut().attribute(texts(adapter, (7,) * 10))
    adapter, asked = adapter_of("bert", zoo.build("bert")), []

    def allowed(*args: Any) -> float:
        asked.append(1)
        return allowed_error(*args) if len(asked) == 1 else -1.0

    monkeypatch.setattr("looprop.removal.controls.allowed_error", allowed)
    found = LeaveOneOut().attribute(texts(adapter, (7,) * 10))
    assert all("fell_back" in a.details["removal"] for a in found)
    for one, other in zip(wanted, found, strict=True):
        np.testing.assert_allclose(other.scores, one.scores, atol=1e-9)


def test_a_batch_in_which_a_known_answer_is_another_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models whose rows look at how many there are, above a number that one short text does not reach."""

    class Crowded(nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner, self.config = inner, inner.config

        def get_input_embeddings(self) -> Any:
            return self.inner.get_input_embeddings()

        def forward(self, input_ids: Any, attention_mask: Any = None, position_ids: Any = None) -> Any:
            logits = self.inner(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids).logits
            return logits.tanh() if input_ids.numel() > 80 else logits

    met = count_joint(monkeypatch)
    adapter = adapter_of("bert", Crowded(zoo.build("bert")))
    found = LeaveOneOut().attribute(texts(adapter, (7,) * 8))
    assert met == [8]
    wanted = LeaveOneOut().attribute(texts(adapter_of("bert", zoo.build("bert")), (7,) * 8))
    for one, other in zip(wanted, found, strict=True):
        np.testing.assert_allclose(other.scores, one.scores, atol=1e-9)

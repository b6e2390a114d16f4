"""Variants of several texts in one batch: each gets what it gets by itself, and every eighth text is checked."""

from typing import Any

import numpy as np
import pytest
import torch

import zoo
from looprop.methods.loo import LeaveOneOut
from looprop.models.adapter import Adapter
from looprop.models.encoded import partition
from looprop.models.subject import Subject
from looprop.models.target import Target
from looprop.removal.set_function import SetFunction
from looprop.removal.shortcuts.choose import Shortcut
from removal.naive import adapter_of, encode

LENGTHS = (5, 9, 7, 7, 4, 8, 5, 6, 9, 7)


def texts(adapter: Adapter, lengths: tuple[int, ...] = LENGTHS) -> list[Subject]:
    found = []
    for number, length in enumerate(lengths):
        ids = torch.randint(5, 90, (1, length), generator=torch.Generator().manual_seed(number))
        encoded = encode(ids)
        found.append(Subject(adapter, encoded, Target((1,), "1"), partition(encoded)))
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
    assert sum(met) == (0 if family == "modernbert" else 8), (
        "two of ten have to check themselves; one family has no way to"
    )
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


def test_every_eighth_text_is_checked() -> None:
    adapter = adapter_of("bert", zoo.build("bert"))
    found = LeaveOneOut().attribute(texts(adapter, (7,) * 20))
    assert [bool(a.details["removal"]["checked"]) for a in found] == [i % 8 == 0 for i in range(20)]


def test_long_texts_check_themselves_and_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    met = count_joint(monkeypatch)
    adapter = adapter_of("bert", zoo.build("bert"))
    found = LeaveOneOut().attribute(texts(adapter, (24, 24, 24)))
    assert not met
    assert all(a.details["removal"]["checked"] for a in found)


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

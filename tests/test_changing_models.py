"""The campaign of changing models: would it notice a model that has outlived its numbers?"""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from attacks.changes import campaign
from attacks.changes.questions import KINDS, Question
from attacks.changes.registry import CHANGES
from attacks.changes.sequence import Step, steps
from attacks.changes.worlds import family

import looprop
from looprop.errors import InputError

BERT = next(seed for seed in range(1, 100) if family(seed) == "bert" and seed % 4)
ASK = Step("", 1, question=Question("explain", method="loo", target=0))
WRITE = Step("in place", 2)


@pytest.fixture(scope="module", autouse=True)
def one_zygote() -> Iterator[None]:
    yield
    if campaign.zygote.cache_info().currsize:
        campaign.zygote(campaign.os.getpid()).end()
        campaign.zygote.cache_clear()


def kinds(*parts: Step) -> list[str]:
    return [kind for _, kind, _ in campaign.played(BERT, parts)]


def test_a_weight_that_is_written_in_place_is_seen() -> None:
    assert kinds(ASK, WRITE, ASK) == ["right", "right"]


def test_an_explanation_that_is_cached_by_its_text_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = looprop.Workbench.explain

    def cached(self: Any, text: str, *args: Any, **options: Any) -> Any:
        cache = vars(self).setdefault("cache", {})
        if text not in cache:
            cache[text] = real(self, text, *args, **options)
        return cache[text]

    monkeypatch.setattr(looprop.Workbench, "explain", cached)
    assert kinds(ASK, WRITE, ASK) == ["right", "wrong"]
    numbers = campaign.shrunk(BERT, [ASK, Step("requires grad", 3), WRITE, ASK], [0, 1, 2, 3], "wrong")
    assert numbers == [0, 2, 3]


def test_an_explanation_that_changes_the_model_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = looprop.Workbench.explain

    def careless(self: Any, *args: Any, **options: Any) -> Any:
        found = real(self, *args, **options)
        with torch.no_grad():
            self.model.classifier.bias.add_(1.0)
        return found

    monkeypatch.setattr(looprop.Workbench, "explain", careless)
    assert kinds(ASK, Step("requires grad", 3), ASK) == ["right", "wrong"]


def test_an_answer_of_another_state_is_no_truth_of_a_change_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    during = Step("in place", 2, question=ASK.question, during="progress")
    assert kinds(during)[0] in ("right", "refused")
    real = looprop.Workbench.explain

    def between(self: Any, *args: Any, progress: Any = None, **options: Any) -> Any:
        first = real(self, *args, **options).scores.copy()
        progress(1, 2)
        found = real(self, *args, **options)
        found.scores[:] = (found.scores + first) / 2
        return found

    monkeypatch.setattr(looprop.Workbench, "explain", between)
    assert kinds(during) == ["wrong"]


def test_needless_refusals_and_tracebacks_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(error: Exception) -> Any:
        def explain(self: Any, *args: Any, **options: Any) -> Any:
            raise error

        return explain

    monkeypatch.setattr(looprop.Workbench, "explain", fails(InputError("no")))
    assert kinds(ASK) == ["over"]
    monkeypatch.setattr(looprop.Workbench, "explain", fails(KeyError("no")))
    assert kinds(ASK) == ["traceback"]


def test_sequences_repeat_themselves_and_reach_everything() -> None:
    assert steps(5) == steps(5)
    parts = [step for seed in range(1500) for step in steps(seed)]
    assert {step.name for step in parts} >= set(CHANGES)
    assert {step.question.kind for step in parts if step.question} == set(KINDS)
    assert {step.during for step in parts} == {"", "thread", "progress"}
    assert {len(steps(seed)) for seed in range(100)} == set(range(3, 9))

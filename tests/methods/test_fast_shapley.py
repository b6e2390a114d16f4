"""The fast estimate: what it spends, what it adds up to, and that it comes near where it can."""

from typing import Any

import numpy as np
import pytest
import torch

import looprop
import tiny
import zoo
from looprop.errors import InputError
from looprop.methods import make_method
from looprop.removal.trust import Disagreement
from removal.naive import subject_of

LONG = "the film is not very good and this movie was a very bad movie"


@pytest.fixture(scope="module")
def bench() -> looprop.Workbench:
    return looprop.load(tiny.tiny_classifier(dtype=torch.float64))


@pytest.mark.parametrize("budget", [4, 6.5, 10, 17, 40])
def test_keeps_to_its_budget_and_adds_up(bench: looprop.Workbench, budget: float) -> None:
    e = bench.explain(LONG, "fast-shapley", budget=budget)
    assert e.cost <= budget
    assert e.cost == pytest.approx(sum(e.details["spent"].values()))
    assert e.scores.sum() == pytest.approx(e.output - e.details["baseline_output"])
    assert e.residual == pytest.approx(0, abs=1e-9)
    assert e.scores[0] == e.scores[-1] == 0
    assert e.details["stays"] == ["[CLS]", "[SEP]"]


def test_what_is_not_paid_for_is_not_used() -> None:
    """A shared prefix costs a pass before anything else: of four, too few are left for relevance."""
    (found,) = make_method("fast-shapley", budget=4).attribute([subject_of("llama", length=12)])
    assert found.details["views"] == ["alone"]
    assert "relevance" not in found.details["spent"]
    assert found.cost <= 4


@pytest.mark.parametrize("length", [2, 3, 4])
def test_exact_values_cost_what_was_run(length: int) -> None:
    subject = subject_of("deberta-v2", length=length)  # which runs whole variants only
    (found,) = make_method("fast-shapley", budget=10).attribute([subject])
    (values,) = subject.cache.values.values()
    assert found.details["exact"]
    assert found.cost == values.computed == 2 ** (length - 1) - 1


def test_what_is_bought_in_which_order(bench: looprop.Workbench) -> None:
    bought = [list(bench.explain(LONG, "fast-shapley", budget=b).details["spent"]) for b in (4, 6.5, 8, 17)]
    assert bought[0] == ["nothing", "relevance"]
    assert bought[1] == ["nothing", "relevance", "alone"]
    assert bought[2] == ["nothing", "relevance", "alone", "leave-one-out"]
    assert bought[3] == ["nothing", "relevance", "alone", "first order", "leave-one-out", "halves"]


def test_few_features_are_exact(bench: looprop.Workbench) -> None:
    e = bench.explain("very bad film", "fast-shapley")
    assert e.details["exact"]
    np.testing.assert_allclose(e.scores, bench.explain("very bad film", "shapley").scores, atol=1e-10)
    assert e.cost <= 10


def test_a_large_budget_comes_near() -> None:
    own = looprop.load()
    text = "The film is not very good , a bad idea ."
    exact = own.explain(text, "shapley", samples=4096)
    errors = [
        np.abs(own.explain(text, "fast-shapley", budget=budget).scores - exact.scores).max() for budget in (10, 800)
    ]
    assert errors[1] < 0.5 * errors[0]
    assert errors[1] < 0.1 * np.abs(exact.scores).max()


def test_on_a_causal_model_leave_one_out_is_cheap() -> None:
    bench = looprop.load((zoo.build("llama"), tiny.wordpiece()))
    e = bench.explain(LONG, "fast-shapley", budget=16)
    assert e.details["views"] == ["alone", "leave-one-out"]  # both ends, which cost less than relevance would
    assert e.details["true_values"] == len(e.features) - len(e.details["stays"])
    assert e.details["halves"] > 0
    assert e.cost <= 16
    dear = bench.explain(LONG, "fast-shapley", budget=4)
    assert "leave-one-out" not in dear.details["views"]
    assert dear.cost <= 4


def test_a_shortcut_that_is_dropped_on_the_way_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its prices no longer hold: the numbers are those of a model on which it was dropped before."""
    own, text = looprop.load((zoo.build("bert"), tiny.wordpiece())), " ".join("abcdefghij")

    def wrong(*_: Any) -> int:
        raise Disagreement("a variant differs")

    with monkeypatch.context() as patch:
        patch.setattr("looprop.removal.value.check_shortcut", wrong)
        first = own.explain(text, "fast-shapley")
    again = own.explain(text, "fast-shapley")
    assert first.details["spent"] == again.details["spent"]
    np.testing.assert_allclose(first.scores, again.scores, rtol=1e-9, atol=1e-12)


def test_words_that_stay_get_nothing(bench: looprop.Workbench) -> None:
    e = bench.explain(LONG, "fast-shapley[keep=film,movie]")
    assert all(score == 0 for name, score in zip(e.features, e.scores, strict=True) if name in ("film", "movie"))


@pytest.mark.parametrize("budget", [0, 3, True, "many", float("nan"), float("inf")])
def test_a_budget_that_buys_nothing_is_refused(budget: float) -> None:
    with pytest.raises(InputError, match="budget must be at least 4 forward passes"):
        make_method("fast-shapley", budget=budget)

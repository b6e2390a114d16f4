"""Methods that share the answer out: the Shapley value and its kin on real set functions, and what always stays."""

from typing import Any

import numpy as np
import pytest

import looprop
import tiny
from looprop.errors import InputError, UnknownNameError
from looprop.games.values import all_sets, exact_shapley
from looprop.methods.parts.players import players_of

TEXT = "the film is not very good"
LONG = "the film is not very good and this movie was a very bad movie"
GAMES = ["shapley", "alone", "both-ends", "kernel-shap", "lime"]


@pytest.fixture(scope="module")
def bench() -> looprop.Workbench:
    import torch

    return looprop.load(tiny.tiny_classifier(dtype=torch.float64))


def test_shapley_is_that_of_the_set_function(bench: looprop.Workbench) -> None:
    e = bench.explain(TEXT, "shapley", target=1)
    f = bench.set_function(TEXT, target=1)
    inner = all_sets(len(e) - 2)
    sets = np.ones((len(inner), len(e)), dtype=bool)
    sets[:, 1:-1] = inner
    np.testing.assert_allclose(e.scores[1:-1], exact_shapley(f(sets)), atol=1e-10)
    assert e.scores[0] == e.scores[-1] == 0
    assert e.details["stays"] == ["[CLS]", "[SEP]"]


@pytest.mark.parametrize("by", ["sets", "orders"])
def test_sampled_shapley_is_near_the_exact_one(bench: looprop.Workbench, by: str) -> None:
    exact = bench.explain(LONG, "shapley", target=1, samples=4000)
    sampled = bench.explain(LONG, "shapley", target=1, by=by, samples=60, tolerance=0.0)
    assert exact.details["exact"]
    assert sampled.details["by"] == by
    assert sampled.details["evaluations"] <= 60 * (len(exact) - 2) + 2
    errors = np.array(sampled.details["errors"])
    assert (np.abs(sampled.scores - exact.scores) <= 4.5 * errors + 1e-12).all()
    assert sampled.details["largest_error"] == errors.max() < 0.5 * np.abs(exact.scores).max()


@pytest.mark.parametrize("method", GAMES)
@pytest.mark.parametrize(
    ("keep", "stays"),
    [
        ("special", [0, 7]),
        ("film,very", [0, 2, 5, 7]),
        ("1-2,4", [0, 1, 2, 4, 7]),
        (["film", 4], [0, 2, 4, 7]),
        ([3], [0, 3, 7]),
    ],
)
def test_what_stays_gets_nothing_and_is_written_down(
    bench: looprop.Workbench, method: str, keep: Any, stays: list[int]
) -> None:
    e = bench.explain(TEXT, method, keep=keep)
    assert e.details["stays"] == [e.features[i] for i in stays]
    assert (e.scores[stays] == 0).all()
    assert (np.delete(e.scores, stays) != 0).all()
    assert e.options["keep"] == keep


def test_what_stays_can_be_named_in_brackets(bench: looprop.Workbench) -> None:
    named = bench.explain(TEXT, "alone[keep=film,very]")
    np.testing.assert_array_equal(named.scores, bench.explain(TEXT, "alone", keep=["film", "very"]).scores)
    given = bench.explain(TEXT, "alone[keep=3]")
    assert given.details["stays"] == ["[CLS]", "is", "[SEP]"]


@pytest.mark.parametrize("keep", ["", [], 3.5, None, [None]])
def test_what_cannot_stay_is_refused(keep: Any) -> None:
    with pytest.raises(InputError, match="keep must be"):
        looprop.methods.make_method("shapley", keep=keep)


def test_what_is_not_there_cannot_stay(bench: looprop.Workbench) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'film'"):
        bench.explain(TEXT, "alone", keep="fil")
    with pytest.raises(InputError, match="features run from 0 to 7"):
        bench.explain(TEXT, "alone", keep="3-9")
    with pytest.raises(InputError, match="every feature of this input always stays"):
        bench.explain(TEXT, "alone", keep="0-7")


def test_both_ends_with_all_of_the_budget_is_exact(bench: looprop.Workbench) -> None:
    exact = bench.explain(LONG, "both-ends", target=1)
    estimated = bench.explain(LONG, "both-ends", target=1, loo="looprop", budget=len(exact))
    np.testing.assert_allclose(estimated.scores, exact.scores, atol=1e-9)
    few = bench.explain(LONG, "both-ends", target=1, loo="looprop", budget=5)
    loo = bench.explain(LONG, "looprop", target=1, budget=5)
    alone = bench.explain(LONG, "alone", target=1)
    np.testing.assert_allclose(few.scores[1:-1], (loo.scores + alone.scores)[1:-1] / 2, atol=1e-9)
    assert few.cost == pytest.approx(loo.cost + alone.cost)
    with pytest.raises(InputError, match="loo='exact'"):
        bench.explain(LONG, "both-ends", loo="looprop", removal="mask-token")


def test_the_cost_of_a_set_is_the_share_of_rows_that_is_run(bench: looprop.Workbench) -> None:
    players = players_of(bench.subject(LONG))
    count = len(players)
    assert players.value.way != "plain"
    sets = np.array([[True] + [False] * (count - 1), [True] * count])
    np.testing.assert_allclose(players.set_cost(sets), [3 / (count + 2), 1.0])
    assert players.alone_cost == pytest.approx((3 * count + 2) / (count + 2))
    plain = players_of(bench.subject(LONG), removal="mask-token")
    np.testing.assert_array_equal(plain.set_cost(sets), [1.0, 1.0])

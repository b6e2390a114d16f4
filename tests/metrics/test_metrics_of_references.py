"""Agreement with either reference, normalised AOPC, sensitivity-n and infidelity, against scipy and literal loops."""

import math
from itertools import combinations, permutations

import numpy as np
import pytest
from scipy import optimize, stats

from looprop.errors import InputError
from looprop.games.orders import exact_limits
from looprop.games.values import all_sets
from looprop.metrics import (
    Case,
    area_over_curve,
    get_metric,
    infidelity,
    normalised_aopc,
    removal_sets,
    required_states,
    sensitivity_n,
    top_overlap,
)

RANDOM = np.random.default_rng(0)
SCORES, LOO, SHAPLEY = RANDOM.normal(size=(3, 9))
SPECIAL = np.array([True, *[False] * 7, True])
CASE = Case(SCORES, loo=LOO, shapley=SHAPLEY, special=SPECIAL)


@pytest.mark.parametrize(("reference", "values"), [("loo", LOO), ("shapley", SHAPLEY)])
def test_correlations_are_those_of_scipy(reference: str, values: np.ndarray) -> None:
    for ending, kept in (("", np.ones(9, dtype=bool)), ("-no-special", ~SPECIAL)):
        for name, oracle in (("r", stats.pearsonr), ("spearman", stats.spearmanr), ("kendall", stats.kendalltau)):
            expected = oracle(SCORES[kept], values[kept]).statistic
            assert get_metric(f"{reference}-{name}{ending}")(CASE) == pytest.approx(expected)
        for k in (1, 3):
            ours = sorted(np.flatnonzero(kept), key=lambda i: -abs(SCORES[i]))[:k]
            theirs = sorted(np.flatnonzero(kept), key=lambda i: -abs(values[i]))[:k]
            both = [i for i in ours if i in theirs and SCORES[i] * values[i] > 0]
            assert get_metric(f"{reference}-top-{k}{ending}")(CASE) == pytest.approx(len(both) / k)


def test_the_top_of_nothing_is_undefined() -> None:
    assert math.isnan(top_overlap([1.0, 2.0], [1.0, 2.0], k=2)), "any scores would do"
    assert math.isnan(top_overlap([1.0, 2.0, 3.0], [0.0, 0.0, 0.0], k=1))
    assert math.isnan(top_overlap([1.0, 1.0, 1.0], [1.0, 2.0, 3.0], k=1))
    assert top_overlap([-9.0, 2.0, 3.0], [9.0, 1.0, 0.0], k=1) == 0, "the same feature with another sign"
    with pytest.raises(InputError, match="k must be"):
        top_overlap([1.0], [1.0], k=0)


def test_normalised_aopc_is_the_place_among_all_orders() -> None:
    """Features 0 and 4 always stay; every order of the others is tried."""
    values = dict(zip(map(tuple, all_sets(3).tolist()), RANDOM.normal(size=8).tolist(), strict=True))

    def f(keep: np.ndarray) -> list[float]:
        return [values[tuple(row[1:4].tolist())] for row in keep]

    def area(order: tuple[int, ...]) -> float:
        kept, drops = [True] * 3, []
        for player in order:
            kept[player] = False
            drops.append(values[(True, True, True)] - values[tuple(kept)])
        return sum(drops) / 3

    scores, plays = np.array([9.0, 1.0, 3.0, 2.0, -9.0]), np.array([False, True, True, True, False])
    areas = {order: area(order) for order in permutations(range(3))}
    expected = (areas[1, 2, 0] - min(areas.values())) / (max(areas.values()) - min(areas.values()))
    limits = exact_limits(np.array(list(values.values())))
    case = Case(scores, plays=plays, aopc_limits=np.array([limits.worst, limits.best]))
    states = required_states(["naopc"], scores, plays)
    assert get_metric("naopc")(states.fill(case, f(states.keep))) == pytest.approx(expected)


def test_the_best_and_the_worst_order_have_one_and_zero() -> None:
    values = RANDOM.normal(size=2**5)
    limits = exact_limits(values)
    for order, expected in ((limits.best_order, 1.0), (limits.worst_order, 0.0)):
        scores = np.empty(5)
        scores[list(order)] = np.arange(5, 0, -1)
        states = required_states(["naopc"], scores)
        case = Case(scores, aopc_limits=np.array([limits.worst, limits.best]))
        filled = states.fill(case, values[states.keep @ (1 << np.arange(5))])
        assert get_metric("naopc")(filled) == pytest.approx(expected)


def test_where_no_order_matters_there_is_no_normalised_aopc() -> None:
    assert math.isnan(normalised_aopc(1.0, 1.0, 1.0))
    assert math.isnan(area_over_curve(1.0, []))
    with pytest.raises(InputError, match="best area"):
        normalised_aopc(1.0, 2.0, 1.0)


def test_sensitivity_n_is_a_mean_of_correlations_over_sizes() -> None:
    removed = np.array([[i in s for i in range(5)] for n in (1, 2, 3) for s in combinations(range(5), n)])
    drops, scores = RANDOM.normal(size=len(removed)), RANDOM.normal(size=5)
    found = []
    for n in (1, 2, 3):
        said, happened = [], []
        for row, drop in zip(removed, drops, strict=True):
            if row.sum() == n:
                said.append(sum(score for score, gone in zip(scores, row, strict=True) if gone))
                happened.append(drop)
        found.append(stats.pearsonr(said, happened).statistic)
    assert sensitivity_n(scores, removed, drops) == pytest.approx(np.mean(found))


def test_sensitivity_n_of_sets_of_one_is_r_to_leave_one_out() -> None:
    assert sensitivity_n(SCORES, np.eye(9, dtype=bool), LOO) == pytest.approx(stats.pearsonr(SCORES, LOO).statistic)


@pytest.mark.parametrize("sign", [1, -1])
def test_infidelity_is_a_least_square(sign: int) -> None:
    removed = all_sets(4)
    scores = np.array([1.0, 2.0, -1.0, 0.5])
    drops = sign * (removed @ scores) * 3 + RANDOM.normal(size=16)
    literal = sum((scores[row].sum() - drop) ** 2 for row, drop in zip(removed, drops, strict=True)) / 16
    assert infidelity(scores, removed, drops, scaled=False) == pytest.approx(literal)

    def error(factor: float) -> float:
        return float(np.mean((factor * (removed @ scores) - drops) ** 2))

    best = optimize.minimize_scalar(error, bounds=(0, 100), method="bounded", options={"xatol": 1e-9}).fun
    assert infidelity(scores, removed, drops) == pytest.approx(best / np.mean(drops**2), abs=1e-6)


def test_what_no_set_changes_has_no_infidelity() -> None:
    assert math.isnan(infidelity([1.0, 2.0], [[1, 0], [0, 1]], [0.0, 0.0]))
    assert math.isnan(infidelity([1.0], np.zeros((0, 1), dtype=bool), []))
    assert infidelity([0.0, 0.0], [[1, 0], [0, 1]], [1.0, 2.0]) == 1.0


def test_random_sets_are_of_the_sizes_of_the_ladder_and_leave_what_stays() -> None:
    plays = np.array([False, *[True] * 12, False])
    sets = removal_sets(plays, seed=3)
    assert not sets[:, ~plays].any()
    assert np.unique(sets.sum(1), return_counts=True)[0].tolist() == [3, 6, 9]
    assert np.array_equal(sets, removal_sets(plays, seed=3))
    assert not np.array_equal(sets, removal_sets(plays, seed=4))
    assert len(removal_sets([True], seed=0)) == 0

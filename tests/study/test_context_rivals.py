"""The rivals of a study: the lasso against its optimality conditions and scipy, ContextCite and AttriBoT against
literal loops.
"""

from collections.abc import Callable

import numpy as np
import pytest
from experiments.context.lasso import lasso
from experiments.context.rivals import context_cite, hierarchical, logit, loo_inside, pruned, random_sets
from scipy import optimize

from looprop.errors import InputError
from looprop.games.values import Floats, Sets


def problem(seed: int, rows: int = 40, columns: int = 7) -> tuple[Floats, Floats]:
    generator = np.random.default_rng(seed)
    design = generator.normal(size=(rows, columns)) @ generator.normal(size=(columns, columns))
    truth = np.where(generator.random(columns) < 0.5, 0.0, generator.normal(size=columns))
    return design, design @ truth + 2.0 + 0.3 * generator.normal(size=rows)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("alpha", [0.0, 0.01, 0.3])
def test_lasso_meets_the_conditions_of_the_minimum(seed: int, alpha: float) -> None:
    design, target = problem(seed)
    weights, intercept = lasso(design, target, alpha)
    left = target - design @ weights - intercept
    assert abs(left.mean()) < 1e-9
    slopes = (design - design.mean(0)).T @ left / len(left)
    nonzero = weights != 0
    assert slopes[nonzero] == pytest.approx(alpha * np.sign(weights[nonzero]), abs=1e-6)
    assert (np.abs(slopes[~nonzero]) <= alpha + 1e-6).all()


def test_lasso_without_a_penalty_is_least_squares() -> None:
    design, target = problem(1)
    weights, intercept = lasso(design, target, 0.0)
    expected = np.linalg.lstsq(np.column_stack([design, np.ones(len(design))]), target, rcond=None)[0]
    assert np.append(weights, intercept) == pytest.approx(expected, abs=1e-6)


def test_lasso_is_below_what_a_general_minimiser_finds() -> None:
    design, target = problem(2, columns=4)

    def loss(parameters: Floats) -> float:
        left = target - design @ parameters[:4] - parameters[4]
        return float((left**2).mean() / 2 + 0.2 * np.abs(parameters[:4]).sum())

    weights, intercept = lasso(design, target, 0.2)
    found = optimize.minimize(loss, np.zeros(5), method="Nelder-Mead", options={"maxiter": 20_000, "fatol": 1e-12})
    assert loss(np.append(weights, intercept)) <= found.fun + 1e-9


def test_lasso_is_that_of_scikit_learn() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    design, target = problem(3)
    other = linear_model.Lasso(alpha=0.1, tol=1e-12, max_iter=100_000).fit(design, target)
    weights, intercept = lasso(design, target, 0.1)
    assert weights == pytest.approx(other.coef_, abs=1e-7)
    assert intercept == pytest.approx(other.intercept_, abs=1e-7)


def test_a_constant_column_has_no_weight_and_a_negative_penalty_is_refused() -> None:
    design = np.column_stack([np.ones(5), np.arange(5.0)])
    assert lasso(design, np.arange(5.0), 0.0)[0].tolist() == pytest.approx([0.0, 1.0])
    with pytest.raises(InputError, match="alpha must be at least 0"):
        lasso(design, np.arange(5.0), -1.0)


def test_the_logit_keeps_its_digits() -> None:
    chance = np.array([1e-30, 0.2, 0.5, 0.75])
    assert logit(np.log(chance)) == pytest.approx(np.log(chance) - np.log1p(-chance), rel=1e-12)
    # 1 - p = 1e-12, of which log p = -1e-12 alone remembers anything
    assert logit(np.array([-1e-12]))[0] == pytest.approx(12 * np.log(10), rel=1e-9)
    assert np.isfinite(logit(np.array([0.0]))).all()


def test_random_sets_hold_every_player_half_of_the_time() -> None:
    sets = random_sets(5, 4000, np.random.default_rng(0))
    assert sets.mean(0) == pytest.approx([0.5] * 5, abs=4 * 0.5 / np.sqrt(4000))
    assert np.corrcoef(sets.T.astype(float)) == pytest.approx(np.eye(5), abs=4 / np.sqrt(4000))


def additive_in_logits(weights: Floats, level: float) -> Callable[[Sets], Floats]:
    """A game whose answer has a logit that is additive in its sources."""
    return lambda sets: -np.log1p(np.exp(-(sets @ weights + level)))


def test_context_cite_finds_a_game_that_is_as_it_thinks() -> None:
    weights = np.array([3.0, 0.0, 0.0, -1.0, 0.0, 0.5])
    game = additive_in_logits(weights, -2.0)
    assert context_cite(game, 6, samples=64, alpha=0.0) == pytest.approx(weights, abs=1e-6)
    shrunk = context_cite(game, 6, samples=64, tokens=2)
    # standardised columns lose alpha * tokens each, in units of a half: nothing more
    assert np.abs(shrunk - weights).max() < 4 * 0.01 * 2 + 0.02
    assert (np.abs(shrunk) <= np.abs(weights) + 0.03).all()


def test_context_cite_is_its_formula_written_out() -> None:
    values = np.random.default_rng(5).normal(size=32) - 3
    game = lambda sets: values[sets @ (1 << np.arange(5))]  # noqa: E731
    sets = random_sets(5, 32, np.random.default_rng(7))
    chance = np.exp(game(sets))
    response = np.log(chance / (1 - chance)) / 3
    mean, spread = sets.mean(0), sets.std(0)
    weights, _ = lasso((sets - mean) / spread, response, 0.01)
    assert context_cite(game, 5, samples=32, tokens=3, seed=7) == pytest.approx(3 * weights / spread)


class Counted:
    """A game with interactions that counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[frozenset[int]] = []

    def __call__(self, sets: Sets) -> Floats:
        found = [frozenset(np.flatnonzero(row).tolist()) for row in sets]
        self.asked += found
        return np.array([self.value(one) for one in found])

    @staticmethod
    def value(kept: frozenset[int]) -> float:
        zero, two, both = 0 in kept, 2 in kept, 4 in kept and 5 in kept
        return 2.0 * two + 1.0 * both - 0.5 * zero + 0.25 * (two and zero)


def test_the_hierarchy_asks_groups_and_then_inside_the_best_alone() -> None:
    game, groups = Counted(), [[0, 1], [2, 3], [4, 5]]
    scores = hierarchical(game, groups, keep=2)
    everyone = frozenset(range(6))
    lost = [Counted.value(everyone) - Counted.value(everyone - set(group)) for group in groups]
    assert sorted(range(3), key=lambda i: -lost[i])[:2] == [1, 2]
    inside = frozenset({2, 3, 4, 5})
    expected = [0.0, 0.0] + [Counted.value(inside) - Counted.value(inside - {i}) for i in (2, 3, 4, 5)]
    assert scores == pytest.approx(expected)
    assert len(game.asked) == (1 + 3) + (1 + 4)


def test_pruning_asks_only_what_the_cheap_estimate_kept() -> None:
    game = Counted()
    scores = pruned(game, np.array([0.0, 0.0, 5.0, 0.0, 3.0, 4.0]), keep=3)
    inside = frozenset({2, 4, 5})
    expected = {i: Counted.value(inside) - Counted.value(inside - {i}) for i in inside}
    assert scores == pytest.approx([expected.get(i, 0.0) for i in range(6)])
    assert len(game.asked) == 4
    assert loo_inside(game, 6, range(6)) == pytest.approx(
        [Counted.value(frozenset(range(6))) - Counted.value(frozenset(range(6)) - {i}) for i in range(6)]
    )

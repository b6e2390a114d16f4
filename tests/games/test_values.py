"""The Shapley value against literal sums over orders, its axioms, and both of its ends."""

from itertools import permutations
from math import factorial

import numpy as np
import pytest
from scipy import stats

from looprop.games.sampling import constrained_least_squares, kernel_sets, kernel_shap, lime
from looprop.games.values import (
    Floats,
    Game,
    Sets,
    all_sets,
    exact_shapley,
    first_marginals,
    last_marginals,
    pair_interactions,
    sampled_shapley,
)


def number_of(sets: Sets) -> Sets:
    return sets @ (1 << np.arange(sets.shape[1]))


def table_game(values: Floats) -> Game:
    """A game given by the values of all sets."""
    return lambda sets: values[number_of(sets)]


def random_game(players: int, seed: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(2**players)


def by_orders(values: Floats, players: int) -> Floats:
    """The literal definition: every order, every player that comes in."""
    shares = [0.0] * players
    for order in permutations(range(players)):
        before = 0
        for player in order:
            after = before | (1 << player)
            shares[player] += (values[after] - values[before]) / factorial(players)
            before = after
    return np.array(shares)


@pytest.mark.parametrize("players", [1, 2, 3, 6])
def test_exact_is_the_mean_over_all_orders(players: int) -> None:
    values = random_game(players, players)
    np.testing.assert_allclose(exact_shapley(values), by_orders(values, players), atol=1e-12)


def test_the_axioms() -> None:
    players = 7
    one, two = random_game(players, 1), random_game(players, 2)
    # efficiency
    assert exact_shapley(one).sum() == pytest.approx(one[-1] - one[0], abs=1e-12)
    # linearity
    np.testing.assert_allclose(
        exact_shapley(2 * one - 3 * two), 2 * exact_shapley(one) - 3 * exact_shapley(two), atol=1e-11
    )
    sets = all_sets(players)
    # a player that adds nothing gets nothing
    null = one[number_of(sets & (np.arange(players) != 3))]
    assert exact_shapley(null)[3] == 0.0
    # two players that can be exchanged get the same
    swapped = sets.copy()
    swapped[:, [0, 5]] = sets[:, [5, 0]]
    symmetric = one + one[number_of(swapped)]
    assert exact_shapley(symmetric)[0] == pytest.approx(exact_shapley(symmetric)[5], abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_both_ends_are_the_shapley_value_where_at_most_pairs_interact(seed: int) -> None:
    generator, players = np.random.default_rng(seed), 8
    single, pairs = generator.standard_normal(players), np.triu(generator.standard_normal((players, players)), 1)
    sets = all_sets(players).astype(float)
    values = 0.7 + sets @ single + np.einsum("ki,ij,kj->k", sets, pairs, sets)
    game = table_game(values)
    mean = (first_marginals(game, players) + last_marginals(game, players)) / 2
    np.testing.assert_allclose(mean, exact_shapley(values), atol=1e-10)
    np.testing.assert_allclose(
        pair_interactions(game, players, [(0, 1), (2, 6)]), [pairs[0, 1], pairs[2, 6]], atol=1e-10
    )


def test_three_together_are_beyond_both_ends() -> None:
    values = (all_sets(3).all(1)).astype(float)  # an AND of three
    game = table_game(values)
    np.testing.assert_allclose(exact_shapley(values), [1 / 3] * 3)
    np.testing.assert_allclose((first_marginals(game, 3) + last_marginals(game, 3)) / 2, [1 / 2] * 3)


def test_sampling_covers_the_exact_value_at_its_stated_error() -> None:
    """95 % intervals of Student's t over many games and seeds: the share that holds the truth is binomial."""
    players, held, tried = 9, 0, 0
    for seed in range(60):
        values = random_game(players, seed) * 0.2 + all_sets(players).sum(1)
        found = sampled_shapley(table_game(values), players, tolerance=0.0, most=40, seed=seed)
        assert found.orders == 40
        bound = stats.t.ppf(0.975, found.orders // 2 - 1) * found.errors
        held += int((np.abs(found.shares - exact_shapley(values)) <= bound).sum())
        tried += players
    low, high = stats.binom.interval(0.9999, tried, 0.95)
    assert low <= held <= high


def test_sampling_stops_at_its_tolerance_and_adds_up_before_that() -> None:
    values = random_game(10, 0) * 0.01 + all_sets(10) @ np.arange(10.0)
    few = sampled_shapley(table_game(values), 10, tolerance=0.5, most=1000)
    many = sampled_shapley(table_game(values), 10, tolerance=1e-4, most=1000)
    assert few.orders < many.orders <= 1000
    assert many.errors.max() <= 1e-4 * np.abs(many.shares).max() or many.orders == 1000
    for found in (few, many):
        assert found.shares.sum() == pytest.approx(values[-1] - values[0])


def test_an_additive_game_is_known_after_one_pair() -> None:
    single = np.array([3.0, -1.0, 0.0, 2.0])
    found = sampled_shapley(lambda sets: sets @ single, 4, tolerance=0.0, most=2)
    np.testing.assert_allclose(found.shares, single, atol=1e-12)


def test_kernel_shap_with_all_sets_is_the_shapley_value() -> None:
    """The kernel's weights as multiplicities: every set as often as its weight says, times a common denominator."""
    players = 5
    values = random_game(players, 3)
    sets = all_sets(players)
    inner = sets[(sets.sum(1) > 0) & (sets.sum(1) < players)]
    sizes = inner.sum(1)
    weights = np.array([(players - 1) / (_choose(players, s) * s * (players - s)) for s in sizes])
    times = np.round(weights / weights.min() * 6).astype(int)
    np.testing.assert_allclose(times / times.sum(), weights / weights.sum())
    repeated = np.repeat(inner, times, axis=0)
    gains = values[number_of(repeated)] - values[0]
    scores = constrained_least_squares(repeated, gains, float(values[-1] - values[0]))
    np.testing.assert_allclose(scores, exact_shapley(values), atol=1e-10)


def _choose(n: int, k: int) -> int:
    return factorial(n) // factorial(k) // factorial(n - k)


def test_sampled_kernel_shap_comes_nearer_with_more_samples_and_always_adds_up() -> None:
    values = random_game(8, 4)
    game, truth = table_game(values), exact_shapley(values)
    errors = []
    for samples in (40, 4000):
        scores = kernel_shap(game, 8, samples=samples)
        assert scores.sum() == pytest.approx(values[-1] - values[0])
        errors.append(np.abs(scores - truth).max())
    assert errors[1] < 0.25 * errors[0]


def test_kernel_sets_have_no_ends_and_come_with_their_complements() -> None:
    sets = kernel_sets(6, 100, np.random.default_rng(0))
    assert set(sets.sum(1)) <= {1, 2, 3, 4, 5}
    np.testing.assert_array_equal(sets[0::2], ~sets[1::2])


def test_lime_finds_an_additive_game_and_a_ridge_shrinks_it() -> None:
    single = np.array([3.0, -1.0, 0.0, 2.0])
    free = lime(lambda sets: 5.0 + sets @ single, 4, samples=300, ridge=1e-9)
    np.testing.assert_allclose(free, single, atol=1e-6)
    shrunk = lime(lambda sets: 5.0 + sets @ single, 4, samples=300, ridge=10.0)
    assert np.abs(shrunk).sum() < np.abs(free).sum()


def test_redundancy_and_need_have_opposite_signs() -> None:
    either = table_game(all_sets(2).any(1).astype(float))
    both = table_game(all_sets(2).all(1).astype(float))
    assert pair_interactions(either, 2, [(0, 1)]).tolist() == [-1.0]
    assert pair_interactions(both, 2, [(0, 1)]).tolist() == [1.0]

"""Sampled Shapley values against exact ones, the smooth game's closed form against all sets, peers as oracles."""

from collections.abc import Iterator

import numpy as np
import pytest
from scipy import stats

from looprop.games.sampling import fewest_evaluations, inner_sets, kernel_chances, shapley_by_sets
from looprop.games.smooth import Smoothness, fit, importance_scale, shapley_of_odd_product, signs
from looprop.games.values import Floats, Game, Sets, all_sets, exact_shapley, sampled_shapley


def table_game(values: Floats) -> Game:
    return lambda sets: values[sets @ (1 << np.arange(sets.shape[1]))]


def games(players: int, seed: int) -> Iterator[tuple[str, Floats]]:
    """Games of many kinds, skewed ones among them, as the values of all sets."""
    generator = np.random.default_rng(seed)
    sets, single = all_sets(players).astype(float), generator.standard_normal(players)
    yield "sigmoid", 1 / (1 + np.exp(-4 * (sets @ single - 0.5)))
    yield "largest", (sets * np.abs(generator.standard_normal(players))).max(1)
    yield (
        "and, or, not",
        sets[:, :3].min(1) + sets[:, 3:6].max(1) + sets[:, 6] * (1 - sets[:, 7]) + 0.05 * sets @ single,
    )
    yield "majority", (sets @ np.abs(single) > 0.6 * np.abs(single).sum()).astype(float)
    hidden = np.tanh(sets @ generator.standard_normal((players, 6)))
    yield "network", sets @ single + hidden @ generator.standard_normal(6)
    yield "noise", sets @ single + 0.3 * generator.standard_normal(2**players)
    yield "five together", 3 * sets[:, :5].min(1) + 0.2 * sets @ single


def test_sampled_sets_cover_the_exact_value_at_their_stated_error() -> None:
    """95 % intervals hold the truth in 95 % of cases, over games, seeds and players; also on each kind of game."""
    players, held = 11, dict[str, list[float]]()
    for seed in range(24):
        for kind, values in games(players, seed):
            truth = exact_shapley(values)
            found = shapley_by_sets(table_game(values), players, tolerance=0.0, most=8 * players, seed=seed)
            assert found.evaluations <= 8 * players
            pairs = found.evaluations // 2 - 1 - players
            bound = stats.t.ppf(0.975, pairs - 1) * found.errors
            held.setdefault(kind, []).append(float((np.abs(found.shares - truth) <= bound).mean()))
            assert found.shares.sum() == pytest.approx(values[-1] - values[0], abs=1e-9)
    # Players of one game are wrong together, so that a game counts as one case: the share of its players that was held.
    for kind, shares in held.items():
        error = np.std(shares, ddof=1) / np.sqrt(len(shares))
        assert np.mean(shares) + 3 * error >= 0.95, (kind, np.mean(shares), error)
    assert 0.94 <= np.mean(list(held.values())) <= 0.98


def test_stopping_at_the_tolerance_keeps_the_promise() -> None:
    """To stop where the error happens to look small is no free lunch: the interval must hold nevertheless."""
    players, held = 11, []
    for seed in range(8):
        for _, values in games(players, 100 + seed):
            found = shapley_by_sets(table_game(values), players, tolerance=0.05, most=10_000, seed=seed)
            truth = exact_shapley(values)
            assert found.errors.max() <= 0.05 * np.abs(found.shares).max()
            held.append(float((np.abs(found.shares - truth) <= 2 * found.errors).mean()))
    assert np.mean(held) >= 0.92


def test_sets_need_fewer_evaluations_than_orders() -> None:
    """Root mean square errors at the same number of evaluations, over kinds of games."""
    players, sets, orders = 11, [], []
    for seed in range(3):
        for _, values in games(players, 200 + seed):
            game, truth = table_game(values), exact_shapley(values)
            by_sets = shapley_by_sets(game, players, tolerance=0.0, most=20 * players, seed=seed)
            by_orders = sampled_shapley(game, players, tolerance=0.0, most=20, seed=seed)
            assert by_sets.evaluations <= by_orders.evaluations + 2 * players
            sets.append(np.sqrt(((by_sets.shares - truth) ** 2).mean()))
            orders.append(np.sqrt(((by_orders.shares - truth) ** 2).mean()))
    assert np.median(np.array(sets) / np.array(orders)) < 0.6


def test_an_additive_game_is_known_at_once() -> None:
    single = np.arange(14.0) - 5
    asked: list[Sets] = []

    def game(sets: Sets) -> Floats:
        asked.append(sets)
        return 2.0 + sets @ single

    found = shapley_by_sets(game, 14, tolerance=1e-3, most=10_000)
    np.testing.assert_allclose(found.shares, single, atol=1e-4)
    assert sum(map(len, asked)) == found.evaluations < fewest_evaluations(14) + 100


def test_the_smooth_game_in_closed_form_is_that_over_all_sets() -> None:
    generator, players = np.random.default_rng(0), 7
    theta = generator.random(players)
    everything = signs(all_sets(players))
    points = signs(generator.random((4, players)) < 0.5)
    smoothness = Smoothness(theta)
    covariance = smoothness.covariance(everything, points)  # (2^n, 4)
    expected = np.stack([exact_shapley(values) for values in covariance.T])
    np.testing.assert_allclose(smoothness.shapley(points), expected, atol=1e-12)
    fitted = fit(points, generator.standard_normal(4), smoothness)
    np.testing.assert_allclose(fitted.shapley(), exact_shapley(fitted(everything)), atol=1e-12)


def test_many_players_are_integrated_exactly() -> None:
    """With equal theta and a point of all players the game is sinh of a sum, which is the same for all: its values at
    the ends divided by n.
    """
    for players in (40, 300):
        theta = np.full(players, 4.0 / players)
        found = shapley_of_odd_product(np.ones((1, players)), theta)
        np.testing.assert_allclose(found, 2.0 / players, rtol=1e-9)  # from -1 to 1


def test_what_a_fit_says_of_values_left_out_is_what_it_says_without_them() -> None:
    generator, players = np.random.default_rng(1), 6
    points, odd = signs(inner_sets(players, 12, generator)), generator.standard_normal(12)
    smoothness = Smoothness(importance_scale(np.ones(players)), noise=0.1)
    whole = fit(points, odd, smoothness, exact=0)
    for out in (0, 7):
        rest = np.arange(12) != out
        without = fit(points[rest], odd[rest], smoothness, exact=0)
        assert whole.left_out[out] == pytest.approx(odd[out] - without(points[out : out + 1])[0])


def test_sets_are_drawn_as_the_kernel_says() -> None:
    sets = inner_sets(8, 20_000, np.random.default_rng(0))
    sizes = np.bincount(sets.sum(1), minlength=9)
    chance = kernel_chances(8)
    assert chance.sum() == pytest.approx(1)
    assert sizes[[0, 1, 7, 8]].sum() == 0
    np.testing.assert_allclose(sizes[2:7] / 20_000, chance[1:-1] / chance[1:-1].sum(), atol=0.015)
    np.testing.assert_allclose(sets.mean(0), 0.5, atol=0.02)


# ----- peers


def test_against_shap() -> None:
    """shap's exact explainer on a game of binary features, the background being nobody there."""
    shap = pytest.importorskip("shap")
    players = 8
    for _, values in games(players, 3):
        game = table_game(values)
        explainer = shap.explainers.Exact(lambda x, game=game: game(np.asarray(x) > 0.5), np.zeros((1, players)))
        theirs = explainer(np.ones((1, players)), max_evals=2**players + 1).values[0]
        np.testing.assert_allclose(exact_shapley(values), theirs, atol=1e-9)


def test_against_shapiq() -> None:
    shapiq = pytest.importorskip("shapiq")
    players = 8
    for _, values in games(players, 4):
        computer = shapiq.ExactComputer(game=table_game(values), n_players=players)
        theirs = computer("SV").get_n_order_values(1)
        np.testing.assert_allclose(exact_shapley(values), theirs, atol=1e-9)

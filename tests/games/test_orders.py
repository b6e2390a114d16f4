"""The limits of the area over the curve, against a literal loop over all orders."""

from itertools import permutations

import numpy as np
import pytest

from looprop.games.orders import beam_limits, exact_limits, order_limits
from looprop.games.values import Floats, Sets, all_sets


def area(values: dict[tuple[bool, ...], float], order: tuple[int, ...]) -> float:
    kept = [True] * len(order)
    whole, total = values[tuple(kept)], 0.0
    for player in order:
        kept[player] = False
        total += whole - values[tuple(kept)]
    return total / len(order)


class Table:
    """A game of random values that counts what it is asked."""

    def __init__(self, players: int, seed: int) -> None:
        self.values = np.random.default_rng(seed).normal(size=2**players)
        self.sets = all_sets(players)
        self.by_set = {tuple(row.tolist()): float(v) for row, v in zip(self.sets, self.values, strict=True)}
        self.asked = 0

    def __call__(self, sets: Sets) -> Floats:
        self.asked += len(sets)
        return np.array([self.by_set[tuple(row.tolist())] for row in sets])


@pytest.mark.parametrize("players", [1, 2, 3, 5, 6])
def test_exact_limits_are_those_of_all_orders(players: int) -> None:
    game = Table(players, seed=players)
    areas = {order: area(game.by_set, order) for order in permutations(range(players))}
    found = exact_limits(game.values)
    assert found.best == pytest.approx(max(areas.values()), abs=1e-12)
    assert found.worst == pytest.approx(min(areas.values()), abs=1e-12)
    assert areas[found.best_order] == pytest.approx(found.best, abs=1e-12)
    assert areas[found.worst_order] == pytest.approx(found.worst, abs=1e-12)
    assert found.exact


def test_a_wide_beam_is_exact_and_a_narrow_one_lies_inside() -> None:
    for seed in range(5):
        game = Table(6, seed)
        exact, wide, narrow = exact_limits(game.values), beam_limits(game, 6, width=20), beam_limits(game, 6, width=1)
        assert (wide.best, wide.worst) == pytest.approx((exact.best, exact.worst))
        assert exact.worst - 1e-12 <= narrow.worst <= narrow.best <= exact.best + 1e-12
        assert area(game.by_set, narrow.best_order) == pytest.approx(narrow.best)
        assert area(game.by_set, narrow.worst_order) == pytest.approx(narrow.worst)
        assert not narrow.exact


def test_an_additive_game_goes_by_size() -> None:
    worth = np.array([1.0, -2.0, 5.0, 0.5])
    found = beam_limits(lambda sets: sets @ worth, 4, width=1)
    assert found.best_order == (2, 0, 3, 1)
    assert found.worst_order == (1, 3, 0, 2)


def test_who_is_exact_and_what_a_beam_asks() -> None:
    game = Table(7, seed=0)
    assert order_limits(game, 7).exact
    assert game.asked == 2**7
    game.asked = 0
    assert not order_limits(game, 7, exact=6, width=3).exact
    assert game.asked - 2 <= 2 * (7 + sum(3 * (7 - step) for step in range(1, 7)))

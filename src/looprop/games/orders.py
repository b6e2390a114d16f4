"""The best and the worst order in which players can leave a game, by the area over the curve of what is left:

    area(order) = 1/n sum over k = 1 .. n of v(N) - v(N without the first k of the order)

(AOPC, Samek et al. 2017, over all n steps as Edin et al. 2025 take it.) The area of an order is a sum over the sets
that it passes, so only the best way to each set has to be remembered: exact limits take the values of all 2^n sets.
Where those are too many, a beam keeps the best few sets of every size.
"""

from dataclasses import dataclass

import numpy as np

from looprop.games.values import Floats, Game, all_sets

EXACT = 12  # up to so many players the limits are exact by default: 4,096 sets
WIDTH = 5  # so many sets of each size a beam keeps by default, as in Edin et al. (2025)


@dataclass(frozen=True)
class OrderLimits:
    """The largest and the smallest area over the curve, and orders that have them. exact: no order has a larger or a
    smaller one; else a beam found none.
    """

    best: float
    worst: float
    best_order: tuple[int, ...]
    worst_order: tuple[int, ...]
    exact: bool


def exact_limits(values: Floats) -> OrderLimits:
    """From the values (2^n,) of all sets, in the order of `all_sets`.

    >>> exact_limits(np.array([0.0, 1.0, 3.0, 4.0]))
    OrderLimits(best=3.5, worst=2.5, best_order=(1, 0), worst_order=(0, 1), exact=True)
    """
    (best, best_order), (worst, worst_order) = (_exact(values, sign) for sign in (1.0, -1.0))
    return OrderLimits(best, worst, best_order, worst_order, exact=True)


def _exact(values: Floats, sign: float) -> tuple[float, tuple[int, ...]]:
    players = len(values).bit_length() - 1
    drops = sign * (values[-1] - values)
    sizes = all_sets(players).sum(1)
    totals, left_last = np.zeros(len(values)), np.zeros(len(values), dtype=np.int64)
    for size in range(players - 1, -1, -1):
        (sets,) = np.nonzero(sizes == size)
        # The best way to a set comes from one of the sets with one player more.
        before = np.stack([np.where((sets >> i) & 1, -np.inf, totals[sets | (1 << i)]) for i in range(players)])
        left_last[sets] = before.argmax(0)
        totals[sets] = before.max(0) + drops[sets]
    order, kept = [], 0
    while kept != len(values) - 1:
        order.append(int(left_last[kept]))
        kept |= 1 << order[-1]
    return sign * float(totals[0]) / max(players, 1), tuple(reversed(order))


def beam_limits(game: Game, players: int, *, width: int = WIDTH) -> OrderLimits:
    """By beam search: of every size, the sets to which the `width` best ways lead."""
    (best, best_order), (worst, worst_order) = (_beam(game, players, width, sign) for sign in (1.0, -1.0))
    return OrderLimits(best, worst, best_order, worst_order, exact=False)


def _beam(game: Game, players: int, width: int, sign: float) -> tuple[float, tuple[int, ...]]:
    whole = float(game(np.ones((1, players), dtype=bool))[0])
    ways: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for _ in range(players):
        # Of two ways to one set the better one; the first where they are equal.
        found: dict[frozenset[int], tuple[float, tuple[int, ...]]] = {}
        for total, order in ways:
            for player in sorted(set(range(players)) - set(order)):
                gone = frozenset((*order, player))
                if gone not in found or total > found[gone][0]:
                    found[gone] = (total, (*order, player))
        keep = np.ones((len(found), players), dtype=bool)
        for row, gone in enumerate(found):
            keep[row, list(gone)] = False
        drops = sign * (whole - game(keep))
        ways = [(total + drop, order) for (total, order), drop in zip(found.values(), drops.tolist(), strict=True)]
        ways = sorted(ways, key=lambda way: -way[0])[:width]
    total, order = ways[0]
    return sign * total / max(players, 1), order


def order_limits(game: Game, players: int, *, exact: int = EXACT, width: int = WIDTH) -> OrderLimits:
    """Exact limits for up to `exact` players, by beam search above."""
    if players <= exact:
        return exact_limits(game(all_sets(players)))
    return beam_limits(game, players, width=width)

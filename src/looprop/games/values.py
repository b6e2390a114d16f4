"""The Shapley value: a feature's marginal contribution, averaged over all orders in which features can come in.

    phi_i = sum over S without i of |S|! (n - |S| - 1)! / n! (v(S + i) - v(S))        (Shapley 1953)

Its two ends are the first marginal contribution, v({i}) - v({}), and the last, v(N) - v(N - i), which is leave-one-out.
Their mean is the Shapley value itself wherever no more than two features interact: a term v_ij gives nothing at the
first end, all of itself at the last, and half of it in the mean of all orders.

What a pair does that its parts do not is

    I_ij = v(N) - v(N - i) - v(N - j) + v(N - i - j),

positive where two features need each other, negative where one stands in for the other: of two words that say the same,
each can go without effect, and both together cannot.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, sqrt

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Sets = NDArray[np.bool_]
Game = Callable[[Sets], Floats]  # sets of players (N, n) -> their values (N,)
Pair = tuple[int, int]


def all_sets(players: int) -> Sets:
    """Every set of players, (2^n, n): row k holds the players whose bit is set in k.

    >>> all_sets(2).astype(int).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    numbers = np.arange(2**players)[:, None]
    found: Sets = (numbers >> np.arange(players)[None]) & 1 == 1
    return found


def exact_shapley(values: Floats) -> Floats:
    """The Shapley values (n,) of a game from the values (2^n,) of all sets, in the order of `all_sets`."""
    players = len(values).bit_length() - 1
    sizes = all_sets(players).sum(1)
    # |S|! (n - |S| - 1)! / n!, by size of S
    weights = np.array([1.0 / (players * comb(players - 1, size)) for size in range(players)])
    numbers = np.arange(len(values))
    shares = np.empty(players)
    for player in range(players):
        without = numbers[(numbers >> player) & 1 == 0]
        marginal = values[without | (1 << player)] - values[without]
        shares[player] = weights[sizes[without]] @ marginal
    return shares


@dataclass(frozen=True, eq=False)
class Sampled:
    """Shapley values from samples. errors: the standard error of each. evaluations: values of sets that they took.
    orders: how many orders were asked, in pairs, where orders were.
    """

    shares: Floats
    errors: Floats
    evaluations: int
    orders: int = 0


def sampled_shapley(
    game: Game, players: int, *, tolerance: float, most: int, seed: int = 0, together: int = 8
) -> Sampled:
    """Shapley values by antithetic orders, until every standard error is at most `tolerance` times the largest score.

    most: orders at the most. together: pairs of orders asked for at once.
    """
    generator = np.random.default_rng(seed)
    pairs: list[Floats] = []
    while True:
        count = min(together, max(1, (most - 2 * len(pairs)) // 2))
        drawn = [generator.permutation(players) for _ in range(count)]
        # Who came early comes late, so that pairs vary less than singles.
        asked = [order for one in drawn for order in (one, one[::-1])]
        marginals = _marginals(game, players, asked)
        pairs += list((marginals[0::2] + marginals[1::2]) / 2)
        samples = np.stack(pairs)
        spread = samples.std(0, ddof=1) if len(pairs) > 1 else np.full(players, np.inf)
        shares, errors = samples.mean(0), spread / sqrt(len(pairs))
        enough = len(pairs) >= 4 and errors.max() <= tolerance * np.abs(shares).max()
        if enough or 2 * (len(pairs) + 1) > most:
            evaluations = 2 + 2 * len(pairs) * (players - 1)
            return Sampled(shares, errors, evaluations, 2 * len(pairs))


def _marginals(game: Game, players: int, orders: list[NDArray[np.int64]]) -> Floats:
    """What each player adds when it comes in, for every order: (orders, n)."""
    states = np.zeros((len(orders), players + 1, players), dtype=bool)
    for number, order in enumerate(orders):
        for step, player in enumerate(order):
            states[number, step + 1 :, player] = True
    values = game(states.reshape(-1, players)).reshape(len(orders), players + 1)
    added = np.empty((len(orders), players))
    for number, order in enumerate(orders):
        added[number, order] = np.diff(values[number])
    return added


def first_marginals(game: Game, players: int) -> Floats:
    """What each player is worth alone: v({i}) - v({})."""
    values = game(np.concatenate([np.zeros((1, players), dtype=bool), np.eye(players, dtype=bool)]))
    found: Floats = values[1:] - values[0]
    return found


def last_marginals(game: Game, players: int) -> Floats:
    """What is lost when each player leaves: v(N) - v(N - i), leave-one-out."""
    values = game(np.concatenate([np.ones((1, players), dtype=bool), ~np.eye(players, dtype=bool)]))
    found: Floats = values[0] - values[1:]
    return found


def pair_interactions(game: Game, players: int, pairs: Sequence[Pair]) -> Floats:
    """The joint effect of each pair beyond the effects of its parts: (len(pairs),)."""
    lost = last_marginals(game, players)
    without = np.ones((len(pairs), players), dtype=bool)
    for row, pair in enumerate(pairs):
        without[row, list(pair)] = False
    both = game(np.ones((1, players), dtype=bool))[0] - game(without)
    found: Floats = np.array([lost[i] + lost[j] for i, j in pairs]) - both
    return found


def candidate_pairs(scores: Floats, most: int) -> list[Pair]:
    """Pairs worth asking for: all of them where that is few enough, else those among the largest scores.

    >>> candidate_pairs(np.array([0.1, -3.0, 2.0]), 3)
    [(0, 1), (0, 2), (1, 2)]
    >>> candidate_pairs(np.array([0.1, -3.0, 2.0, 0.0]), 1)
    [(1, 2)]
    """
    players = len(scores)
    if players * (players - 1) // 2 <= most:
        return list(combinations(range(players), 2))
    count = 2
    while (count + 1) * count // 2 <= most:
        count += 1
    chosen = sorted(np.lexsort((np.arange(players), -np.abs(scores)))[:count].tolist())
    return list(combinations(chosen, 2))

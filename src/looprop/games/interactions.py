"""What pairs of features do that their parts do not.

    I_ij = v(N) - v(N - i) - v(N - j) + v(N - i - j)

Positive where two features need each other, negative where one stands in for the other: of two words that say the same,
each can go without effect, and both together cannot.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from looprop.games.values import Floats, Game, last_marginals

Pair = tuple[int, int]


def pair_interactions(game: Game, players: int, pairs: Sequence[Pair]) -> Floats:
    """The joint effect of each pair beyond the effects of its parts: (len(pairs),)."""
    lost = last_marginals(game, players)
    whole = np.ones((1, players), dtype=bool)
    without = np.ones((len(pairs), players), dtype=bool)
    for row, pair in enumerate(pairs):
        without[row, list(pair)] = False
    both = game(whole)[0] - game(without)
    parts = np.array([lost[i] + lost[j] for i, j in pairs])
    joint: Floats = parts - both
    return joint


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

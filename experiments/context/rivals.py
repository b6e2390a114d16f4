"""Which parts of a context an answer comes from, as others compute it: the rivals of a study.

A game here gives the log-probability of an answer when only a set of sources (sentences, paragraphs) is in the prompt.
ContextCite: B. Cohen-Wang, H. Shah, K. Georgiev, A. Madry, 2024. AttriBoT: F. Liu, N. Kandpal, C. Raffel, 2025. Both
are written from the papers.
"""

from collections.abc import Sequence

import numpy as np

from looprop.errors import InputError
from looprop.games.values import Floats, Game, Sets

from .lasso import lasso

ALPHA = 0.01
"""ContextCite's own."""


def random_sets(players: int, count: int, generator: np.random.Generator) -> Sets:
    """Sets that hold every player with chance one half, independently: (count, n)."""
    sets: Sets = generator.random((count, players)) < 0.5
    return sets


def logit(log_probability: Floats) -> Floats:
    """log p - log(1 - p) from log p, also where p is next to 0 or 1.

    >>> logit(np.log(np.array([0.5, 0.9]))).round(4).tolist()
    [0.0, 2.1972]
    """
    below = np.minimum(log_probability, -np.finfo(float).tiny)
    odds: Floats = below - np.log(-np.expm1(below))
    return odds


def context_cite(
    game: Game, players: int, *, samples: int = 32, tokens: int = 1, alpha: float = ALPHA, seed: int = 0
) -> Floats:
    """ContextCite: the logit of the answer's probability on random sets of sources, fitted by a lasso.

    Sets are standardised and logits divided by the number of answer tokens before they are fitted; the weights are
    given back on the scale of the logit.
    """
    if samples < 2:
        raise InputError(f"samples must be an integer >= 2, got {samples!r}")
    sets = random_sets(players, samples, np.random.default_rng(seed))
    spread = sets.std(0)
    standard = np.where(spread > 0, spread, 1.0)
    weights, _ = lasso((sets - sets.mean(0)) / standard, logit(game(sets)) / tokens, alpha)
    scores: Floats = weights / standard * tokens
    return scores


def loo_inside(game: Game, players: int, inside: Sequence[int]) -> Floats:
    """Leave-one-out of some players where only they are there; the others get 0."""
    kept = np.array(sorted(inside), dtype=np.int64)
    sets = np.zeros((len(kept) + 1, players), dtype=bool)
    sets[:, kept] = True
    sets[np.arange(len(kept)) + 1, kept] = False
    values = game(sets)
    scores = np.zeros(players)
    scores[kept] = values[0] - values[1:]
    return scores


def loo_of_groups(game: Game, groups: Sequence[Sequence[int]]) -> tuple[float, Floats]:
    """The value of everything, and what is lost when each group goes."""
    without = np.ones((len(groups) + 1, sum(map(len, groups))), dtype=bool)
    for row, group in enumerate(groups):
        without[row + 1, list(group)] = False
    values = game(without)
    return float(values[0]), values[0] - values[1:]


def hierarchical(game: Game, groups: Sequence[Sequence[int]], *, keep: int) -> Floats:
    """AttriBoT's hierarchy: leave-one-out of whole groups, then of single players inside the `keep` best groups alone.

    What was not kept gets 0.
    """
    players = sum(map(len, groups))
    _, lost = loo_of_groups(game, groups)
    best = np.argsort(-lost, kind="stable")[: max(1, keep)]
    return loo_inside(game, players, [player for group in best for player in groups[group]])


def pruned(game: Game, proxy: Floats, *, keep: int) -> Floats:
    """AttriBoT's pruning: a cheaper estimate keeps the best players, and leave-one-out is asked of these alone."""
    best = np.argsort(-proxy, kind="stable")[: max(1, keep)]
    return loo_inside(game, len(proxy), best.tolist())


def coarse_to_fine(game: Game, groups: Sequence[Sequence[int]], *, keep: int) -> Floats:
    """Leave-one-out of whole groups, then of single players inside the `keep` groups that matter most, everything else
    in place: what is opened is exact. A group that is not opened shares its own score among its players.
    """
    players = sum(map(len, groups))
    whole, lost = loo_of_groups(game, groups)
    scores = np.zeros(players)
    for group, score in zip(groups, lost, strict=True):
        scores[list(group)] = score / len(group)
    order = np.argsort(-np.abs(lost), kind="stable")[: max(1, keep)]
    opened = sorted(player for number in order for player in groups[number])
    single = ~np.eye(players, dtype=bool)[opened]
    scores[opened] = whole - game(single)
    return scores

"""Shapley values from sampled sets, each with its complement, and what a smooth game says of them taken off first.

    phi(v) = phi(g) + phi(v - g)

g is a smooth game fitted to sampled values (`smooth.py`), phi(g) is known in closed form, and phi(v - g) is the mean of

    (z_i - mean over players of z) r(z) / (2 alpha),      r the odd part of v - g,

over sets drawn as KernelSHAP draws them (Lundberg & Lee 2017; Covert & Lee 2021), alpha a constant of n. The mean is
never taken over the sets to which g was fitted (they are dealt out to folds), so that it is right on average whatever g
is, and its spread shows how wrong it may be. Sets of one player and of all but one are all asked.

And the additive model that fits a game best on sampled sets: KernelSHAP (Lundberg & Lee 2017) weighs a set of size s by
(n - 1) / (C(n, s) s (n - s)) and holds the sum of all scores to v(N) - v({}); with all sets it is the Shapley value.
LIME (Ribeiro et al. 2016) weighs a set by how near it is to the whole, exp(-d^2 / width^2) with d the cosine distance,
and shrinks its scores by a ridge.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from looprop.games.smooth import SmoothGame, Smoothness, fit, importance_scale, signs
from looprop.games.values import Floats, Game, Sampled, Sets

FOLDS = 5
# Sums of theta that are tried, from hardly any interaction to much of it, each with a noise.
REACHES = ((0.01, 1e-5), (0.5, 1e-2), (1.5, 1e-2), (4.0, 1e-2))
# A smooth game is fitted to no more sets than this, for the sake of time; the others still count in the mean.
MOST_FITTED = 1000
FIRST_PAIRS = 32
FEWEST_PAIRS = 4 * FOLDS  # fewer than this say too little of their own spread
# The spread of few sets is itself a guess, and the folds share most of what they are fitted to: every error takes a
# quarter of its variance from the mean of all, and is wider by a tenth, so that 95 % intervals hold 95 % of the time.
SHARED, WIDER = 0.25, 1.1


@dataclass(frozen=True, eq=False)
class _Asked:
    """The odd part of a game where it was asked: at the whole (1,), at every single player (n,), at sampled sets (m,).

    ends: signs (1 + n, n) of the first two. points: signs (m, n) of the last.
    """

    ends: Floats
    at_ends: Floats
    points: Floats
    at_points: Floats


def shapley_by_sets(game: Game, players: int, *, tolerance: float, most: int, seed: int = 0) -> Sampled:
    """Shapley values by sampled sets, until every standard error is at most `tolerance` times the largest score.

    most: evaluations at the most, of which 2 n + 2 are spent on the two ends.
    """
    generator = np.random.default_rng(seed)
    ends = np.concatenate([np.ones((1, players), dtype=bool), np.eye(players, dtype=bool)])
    both = game(np.concatenate([ends, ~ends]))
    at_ends = (both[: players + 1] - both[players + 1 :]) / 2
    # What a player does first, and last.
    sizes = np.abs(both[1 : players + 1] - both[players + 1]) + np.abs(both[0] - both[players + 2 :])
    pairs = max(FEWEST_PAIRS, (most - 2 * players - 2) // 2)
    points, odd = np.empty((0, players)), np.empty(0)
    wanted = min(pairs, FIRST_PAIRS)
    while True:
        sets = inner_sets(players, wanted - len(points), generator)
        values = game(np.concatenate([sets, ~sets]))
        points = np.concatenate([points, signs(sets)])
        odd = np.concatenate([odd, (values[: len(sets)] - values[len(sets) :]) / 2])
        shares, errors = _estimate(_Asked(signs(ends), at_ends, points, odd), sizes)
        target = tolerance * np.abs(shares).max()
        if errors.max() <= target or len(points) >= pairs:
            return Sampled(shares, errors, evaluations=2 * (1 + players + len(points)))
        # Errors fall at least with the root of the number: so many may be enough, but the first guess is a rough one.
        growth = min(2.0, max(1.25, 0.9 * (errors.max() / target) ** 2)) if target > 0 else 2.0
        wanted = min(pairs, int(np.ceil(growth * len(points))))


def fewest_evaluations(players: int) -> int:
    """What both ends and the fewest sets that say something of their spread cost."""
    return 2 * players + 2 + 2 * FEWEST_PAIRS


def inner_sets(players: int, count: int, generator: np.random.Generator) -> Sets:
    """Sets of 2 to n - 2 players as the kernel draws them: (count, n)."""
    chance = kernel_chances(players)[1:-1]
    sizes = generator.choice(np.arange(2, players - 1), size=count, p=chance / chance.sum())
    ranks = np.argsort(generator.random((count, players)), axis=1).argsort(axis=1)
    return ranks < sizes[:, None]


def _estimate(asked: _Asked, sizes: Floats) -> tuple[Floats, Floats]:
    count, players = asked.points.shape
    chance = kernel_chances(players)
    kinds = np.arange(1, players)
    alpha = 0.5 - float(
        (chance * kinds * (kinds - 1)).sum() / (players * (players - 1))
    )  # by which E[x x'] exceeds a constant matrix on its diagonal
    at_ends = float(chance[0] + chance[-1])
    means, spreads = [], []
    for fold in range(FOLDS):
        held = np.arange(count) % FOLDS == fold
        rest = np.flatnonzero(~held)[:MOST_FITTED]
        smooth = _fit(asked, rest, sizes)
        # At the ends the mean over all sets is known, inside it is sampled.
        missed = asked.at_ends - smooth(asked.ends)
        outer = _centred(asked.ends[1:]) * missed[1:, None] / (2 * alpha)
        inner = _centred(asked.points[held]) * (asked.at_points[held] - smooth(asked.points[held]))[:, None]
        inner = inner * (1 - at_ends) / (2 * alpha)
        means.append(smooth.shapley() + at_ends * outer.mean(0) + inner.mean(0))
        spreads.append(inner.var(0, ddof=1) / len(inner))
    shares: Floats = np.mean(means, axis=0)
    shares = shares + (2 * asked.at_ends[0] - shares.sum()) / players  # what rounding and noise left over
    variance = np.mean(spreads, axis=0) / FOLDS
    return shares, WIDER * np.sqrt((1 - SHARED) * variance + SHARED * variance.mean())


def _centred(points: Floats) -> Floats:
    found: Floats = points - points.mean(1, keepdims=True)
    return found


def _fit(asked: _Asked, chosen: NDArray[np.int64], sizes: Floats) -> SmoothGame:
    """The smooth game of the reach that would have missed the sampled sets by least, had each been left out.

    sizes: of the first and last marginal contributions; the slopes of an additive fit say how much players matter
    between them.
    """
    points = np.concatenate([asked.ends, asked.points[chosen]])
    odd = np.concatenate([asked.at_ends, asked.at_points[chosen]])
    slopes, *_ = np.linalg.lstsq(points, odd, rcond=None)
    scale = importance_scale((sizes + 4 * np.abs(slopes)) ** 1.5)
    fitted = [fit(points, odd, Smoothness(reach * scale, noise=noise)) for reach, noise in REACHES]
    inner = len(asked.ends)
    return min(fitted, key=lambda game: float((game.left_out[inner:] ** 2).sum()))


def kernel_chances(players: int) -> Floats:
    """Probability of each set size from 1 to n - 1 under the Shapley kernel, (n - 1,)."""
    sizes = np.arange(1, players)
    weights = 1.0 / (sizes * (players - sizes))  # C(n, s) sets of a size share the kernel's weight
    found: Floats = weights / weights.sum()
    return found


def kernel_sets(players: int, count: int, generator: np.random.Generator) -> Sets:
    """Sets of 1 to n - 1 players as the kernel draws them, each with its complement: (count, n)."""
    chances = kernel_chances(players)
    sets = np.zeros((count, players), dtype=bool)
    for row in range(0, count, 2):
        size = generator.choice(np.arange(1, players), p=chances)
        sets[row, generator.permutation(players)[:size]] = True
        if row + 1 < count:
            sets[row + 1] = ~sets[row]
    return sets


def constrained_least_squares(sets: Sets, gains: Floats, total: float) -> Floats:
    """The additive scores (n,) nearest to the gains v(S) - v({}) of sets that were drawn by the kernel, which add up to
    the total.

    Where the sets do not tell scores apart, those of least norm around equal shares.
    """
    players = sets.shape[1]
    equal = total / players
    design = sets.astype(float)
    # Around equal shares the sum of all scores is zero: the last score is minus the others'.
    reduced = design[:, :-1] - design[:, -1:]
    target = gains - equal * design.sum(1)
    others, *_ = np.linalg.lstsq(reduced, target, rcond=None)
    found: Floats = equal + np.append(others, -others.sum())
    return found


def kernel_shap(game: Game, players: int, *, samples: int, seed: int = 0) -> Floats:
    """KernelSHAP with so many evaluations, the two ends included."""
    ends = game(np.array([[False] * players, [True] * players]))
    total = float(ends[1] - ends[0])
    if players == 1:
        return np.array([total])
    sets = kernel_sets(players, max(1, samples - 2), np.random.default_rng(seed))
    return constrained_least_squares(sets, game(sets) - ends[0], total)


def lime(game: Game, players: int, *, samples: int, width: float = 0.25, ridge: float = 1.0, seed: int = 0) -> Floats:
    """LIME with so many evaluations: sets in which every number of players is as likely, and the whole."""
    generator = np.random.default_rng(seed)
    sets = np.ones((max(2, samples), players), dtype=bool)
    for row in range(1, len(sets)):
        gone = generator.permutation(players)[: generator.integers(1, players + 1)]
        sets[row, gone] = False
    values = game(sets)
    distance = 1.0 - np.sqrt(sets.mean(1))  # of a set from the whole, by the cosine of their indicators
    weights = np.exp(-(distance**2) / width**2)
    design = sets.astype(float)
    centre, level = weights @ design / weights.sum(), weights @ values / weights.sum()
    moved = design - centre
    gram = moved.T @ (weights[:, None] * moved) + ridge * np.eye(players)
    return np.linalg.solve(gram, moved.T @ (weights * (values - level)))

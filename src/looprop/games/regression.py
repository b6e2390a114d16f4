"""The additive model that fits a game best on sampled sets: KernelSHAP and LIME.

KernelSHAP (Lundberg & Lee 2017) weighs a set of size s by (n - 1) / (C(n, s) s (n - s)) and holds the sum of all
scores to v(N) - v({}); with all sets it is the Shapley value. LIME (Ribeiro et al. 2016) weighs a set by how near it
is to the whole, exp(-d^2 / width^2) with d the cosine distance, and shrinks its scores by a ridge.
"""

import numpy as np

from looprop.games.values import Floats, Game, Sets


def kernel_chances(players: int) -> Floats:
    """How likely sets of 1 to n - 1 players are under the Shapley kernel, by size: (n - 1,)."""
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

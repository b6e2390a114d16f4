"""What scores say of sets of features, against what the model does without them: the metrics sensitivity and
infidelity. Both look at the same random sets, drawn once per text; what always stays is in none of them.

Sensitivity-n (Ancona et al., ICLR 2018), here as a mean over the sizes n of a fixed ladder, over sets S of n features:

    r_S ( sum over i in S of R_i ,  f(x) - f(x without S) )

Infidelity (Yeh et al., NeurIPS 2019), with removals for perturbations: I is the indicator of S,

    INFD = E_S [ ( I . R  -  (f(x) - f(x without S)) )^2 ]

Scores have no common unit, so by default they are first multiplied by the one factor beta >= 0 that serves them best
(Yeh et al. scale by their beta as well), and the error is given as a share of E_S[(f(x) - f(x without S))^2]: 0 is
perfect, 1 is what scores of zero have.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from looprop.errors import InputError
from looprop.metrics.base import Case, Metric, Vector, finite_vector, register
from looprop.metrics.correlation import pearson

Sets = NDArray[np.bool_]

LADDER = (0.25, 0.5, 0.75)  # shares of the features that play which are removed together
SETS = 24  # sets of each size


def removal_sets(plays: ArrayLike, *, sets: int = SETS, ladder: tuple[float, ...] = LADDER, seed: int = 0) -> Sets:
    """Random sets (N, G) of features that play, `sets` of each size of the ladder, drawn by the seed; the same for the
    same features.

    >>> removal_sets([False, True, True, True, True], sets=2, ladder=(0.5,)).sum(1).tolist()
    [2, 2]
    """
    playing = np.asarray(plays, dtype=bool)
    (players,) = np.nonzero(playing)
    generator, rows = np.random.default_rng([seed, len(playing)]), []
    for size in dict.fromkeys(round(share * len(players)) for share in ladder):
        for _ in range(sets if 0 < size < len(players) else 0):
            row = np.zeros(len(playing), dtype=bool)
            row[generator.choice(players, size, replace=False)] = True
            rows.append(row)
    return np.array(rows, dtype=bool).reshape(len(rows), len(playing))


def sensitivity_n(scores: ArrayLike, removed: ArrayLike, drops: ArrayLike) -> float:
    """The mean over sizes n of Pearson's r, over the sets of that size, between summed scores and drops; NaN where it
    is undefined for every size.

    scores: (G,). removed: (N, G) sets of features. drops: (N,) f(x) - f(x without each).

    >>> sensitivity_n([1, 2, 4], [[1, 0, 0], [0, 1, 0], [0, 0, 1]], [2, 4, 8])
    1.0
    """
    said, sets, drops = _checked(scores, removed, drops)
    sizes = sets.sum(1)
    found = [pearson(said[sizes == size], drops[sizes == size]) for size in np.unique(sizes)]
    defined = [r for r in found if not math.isnan(r)]
    return sum(defined) / len(defined) if defined else math.nan


def infidelity(scores: ArrayLike, removed: ArrayLike, drops: ArrayLike, *, scaled: bool = True) -> float:
    """The mean squared difference between summed scores and drops over the sets.

    scaled: scores times the best factor beta >= 0, and the error as a share of the mean squared drop; else as it
        stands in the paper. NaN without sets, and scaled where no set has an effect.

    >>> infidelity([1, 2], [[1, 0], [0, 1]], [2, 4], scaled=False), infidelity([1, 2], [[1, 0], [0, 1]], [2, 4])
    (2.5, 0.0)
    """
    said, sets, drops = _checked(scores, removed, drops)
    if not len(sets):
        return math.nan
    if not scaled:
        return float(np.mean((said - drops) ** 2))
    size, power = float(np.abs(said).max()), float(np.abs(drops).max())
    if power == 0:
        return math.nan
    said, drops = said / (size or 1.0), drops / power
    factor = max(0.0, float(said @ drops)) / float(said @ said) if size else 0.0
    return float(np.sum((factor * said - drops) ** 2) / (drops @ drops))


def _checked(scores: ArrayLike, removed: ArrayLike, drops: ArrayLike) -> tuple[Vector, Sets, Vector]:
    """What the scores say of each set, the sets, and the drops."""
    values, effects = finite_vector("scores", scores), finite_vector("drops", drops)
    sets = np.asarray(removed, dtype=bool)
    if sets.shape != (len(effects), len(values)):
        raise InputError(f"removed must have shape ({len(effects)}, {len(values)}), got {sets.shape}")
    return sets @ values, sets, effects


def _register(name: str, function: Callable[..., float], description: str, *, higher: bool, title: str = "") -> None:
    def value(case: Case) -> float:
        return function(case.curve_scores, case.removed, case.removed_drops)

    register(Metric(name, description, higher, frozenset({"removed_drops"}), value, title=title))


_register(
    "sensitivity",
    sensitivity_n,
    "r between summed scores of sets of features and the drop without them, mean over three sizes",
    higher=True,
    title="sensitivity-n",
)
_register(
    "infidelity",
    infidelity,
    "squared error of summed scores, scaled at their best, against the drop without sets of features, as a share of "
    "the squared drop",
    higher=False,
)

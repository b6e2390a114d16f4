"""How well scores of sources (sentences of a prompt) tell what the answer depends on: the metrics of ContextCite and
AttriBoT, as pure functions.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from looprop.errors import InputError
from looprop.metrics.base import Vector, finite_vector
from looprop.metrics.correlation import spearman

FENCE = 1.5  # Tukey's: so many interquartile ranges above the upper quartile something stands out


def linear_datamodeling_score(scores: ArrayLike, sets: NDArray[np.bool_], values: ArrayLike) -> float:
    """LDS: Spearman's rho between what the scores predict for sets of sources, the sum over each set, and the answer's
    true log-probability on them. sets: (N, n), values: (N,).

    >>> linear_datamodeling_score([2.0, 1.0], np.array([[True, True], [True, False], [False, True]]), [-1, -2, -3])
    1.0
    """
    own, truth = finite_vector("scores", scores), finite_vector("values", values)
    if sets.shape != (len(truth), len(own)):
        raise InputError(f"sets must have shape ({len(truth)}, {len(own)}), got {sets.shape}")
    return spearman(sets @ own, truth)


def standing_out(loo: ArrayLike) -> NDArray[np.bool_]:
    """Mark the sources whose leave-one-out is above Tukey's fence and above zero.

    >>> standing_out([0.1, 0.0, -0.1, 0.05, 3.0]).tolist()
    [False, False, False, False, True]
    """
    own = finite_vector("loo", loo)
    low, high = np.quantile(own, [0.25, 0.75])
    found: NDArray[np.bool_] = (own > high + FENCE * (high - low)) & (own > 0)
    return found


def average_precision(scores: ArrayLike, relevant: ArrayLike) -> float:
    """The precision at the rank of every relevant source, averaged over them; NaN where none is relevant. Sources of
    the same score share it: what is counted is the expectation over all orders of them.

    >>> average_precision([3.0, 2.0, 1.0], [True, False, True])
    0.8333333333333333
    """
    own, hits = _relevant(scores, relevant)
    if not hits.any():
        return math.nan
    total = 0.0
    for score in np.unique(own[hits]):
        above, tied = own > score, own == score
        total += _precisions_of_ties(int(above.sum()), int(hits[above].sum()), int(tied.sum()), int(hits[tied].sum()))
    return total / int(hits.sum())


def _precisions_of_ties(above: int, hits_above: int, tied: int, hits: int) -> float:
    """The expected sum of precisions at the relevant ones among `tied` sources in random order, after `above` others:
    each place is relevant with chance h / t, and each before it then holds (h - 1) / (t - 1) relevant ones.
    """
    others = (hits - 1) / (tied - 1) if tied > 1 else 0.0
    return sum(hits / tied * (hits_above + 1 + place * others) / (above + 1 + place) for place in range(tied))


def recall_at(scores: ArrayLike, relevant: ArrayLike, count: int) -> float:
    """The share of relevant sources among the `count` of highest score, of as many as can be there; ties in order of
    position. NaN where none is relevant.

    >>> recall_at([1.0, 3.0, 2.0], [True, True, False], 1), recall_at([1.0, 3.0, 2.0], [True, True, False], 3)
    (1.0, 1.0)
    """
    own, hits = _relevant(scores, relevant)
    if count < 1:
        raise InputError(f"count must be an integer >= 1, got {count!r}")
    if not hits.any():
        return math.nan
    return float(hits[best(own, count)].sum() / min(count, int(hits.sum())))


def best(scores: Vector, count: int) -> NDArray[np.int64]:
    """The positions of the highest scores, highest first; ties in order of position."""
    return np.argsort(-scores, kind="stable")[:count]


def _relevant(scores: ArrayLike, relevant: ArrayLike) -> tuple[Vector, NDArray[np.bool_]]:
    own, hits = finite_vector("scores", scores), np.asarray(relevant, dtype=bool)
    if hits.shape != own.shape:
        raise InputError(f"relevant must hold one flag per source: {len(own)} sources, got shape {hits.shape}")
    return own, hits

"""Do scores and a reference agree on the few most important features? The metrics loo-top-1, loo-top-3,
shapley-top-1 and shapley-top-3, each with and without special tokens.
"""

import math
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from looprop.errors import InputError
from looprop.metrics.base import Vector, register
from looprop.metrics.correlation import TITLES, reference_metric, same_features

TOP = {
    1: "agreement on the most important feature and its sign",
    3: "share of the 3 most important features in common, of the same sign,",
}
"""The numbers of features for which there is a metric, in words."""


def top_overlap(scores: ArrayLike, reference: ArrayLike, k: int) -> float:
    """The share of the reference's k largest features, by magnitude, that are among the k largest scores and have the
    reference's sign there ("signed feature agreement", Krishna et al. 2022).

    Ties go by position, the lower first. NaN where there are no more than k features (any scores would do), where the
    scores are constant, and where fewer than k features have an effect.

    >>> top_overlap([5.0, -4.0, 0.1, 0.0], [3.0, 2.0, 0.2, 0.0], k=2)
    0.5
    """
    if type(k) is not int or k < 1:
        raise InputError(f"k must be an integer >= 1, got {k!r}")
    return _overlap(*same_features(scores, reference), k)


def _overlap(scores: Vector, reference: Vector, k: int) -> float:
    if len(scores) <= k or np.count_nonzero(reference) < k or np.ptp(scores) == 0:
        return math.nan
    ours, theirs = (set(np.argsort(-np.abs(values), kind="stable")[:k].tolist()) for values in (scores, reference))
    return float(sum(np.sign(scores[i]) == np.sign(reference[i]) for i in ours & theirs)) / k


for _reference, _called in TITLES.items():
    for _k, _words in TOP.items():
        for _special, _more in ((True, ", special tokens too"), (False, "")):
            _overlap_of_k, _title = partial(_overlap, k=_k), f"top {_k} of {_called}{_more}"
            register(
                reference_metric(f"top-{_k}", _words, _overlap_of_k, _reference, with_special=_special, title=_title)
            )

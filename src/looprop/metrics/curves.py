"""Removal curves: in which order features go, which states that asks for, and how a curve becomes a number.

With F features, `order` a removal order and f the target logit, step k (k = 1 .. F-1) is the state in which the first k
features of the order are removed. The state with nothing left is not used: what a model answers without any key depends
on the implementation.

The states of insertion and deletion are those of the two removal curves and the intact input, so nothing else needs
computing:

    deletion   removes most relevant first:  intact, MoRF step 1, ..., MoRF step F-1
    insertion  adds most relevant first, from 1 feature kept to all F.  The state with j kept is the one in which the
    F-j least relevant
               are removed:                  LeRF step F-1, ..., LeRF step 1, intact

Insertion's order is thus the reverse of the LeRF order by definition. Between tied scores LeRF removes the lower
position first, so insertion adds the higher position first.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from looprop.errors import InputError
from looprop.metrics.correlation import finite_vector


@dataclass(frozen=True)
class CurveSummary:
    """The numbers of one example's two removal curves; NaN for fewer than 2 features (no step)."""

    morf: float
    lerf: float
    delta: float
    aopc: float
    insertion: float
    deletion: float


def removal_order(scores: ArrayLike, *, most_relevant_first: bool) -> NDArray[np.intp]:
    """The positions of the features in the order of their removal; ties go by position, the lower first, in both
    directions.

    >>> removal_order([0.5, 2.0, 0.5], most_relevant_first=True).tolist()
    [1, 0, 2]
    >>> removal_order([0.5, 2.0, 0.5], most_relevant_first=False).tolist()
    [0, 2, 1]
    """
    scores = finite_vector("scores", scores)
    return np.argsort(-scores if most_relevant_first else scores, kind="stable")


def keep_matrix(order: ArrayLike) -> NDArray[np.bool_]:
    """The kept features (F-1, F) after each step: row k-1 has the first k features of the order removed.

    >>> keep_matrix([1, 0, 2]).astype(int).tolist()
    [[1, 0, 1], [0, 0, 1]]
    """
    order = np.asarray(order)
    count = len(order)
    if order.ndim != 1 or count == 0 or not np.array_equal(np.sort(order), np.arange(count)):
        raise InputError(f"order must hold each position from 0 to F-1 once, got {order.tolist()}")
    step_of_removal = np.empty(count, dtype=np.intp)  # (F,)
    step_of_removal[order] = np.arange(1, count + 1)
    keep: NDArray[np.bool_] = step_of_removal[None, :] > np.arange(1, count)[:, None]  # (F-1, F)
    return keep


def mean_logit(curve: ArrayLike) -> float:
    """MoRF or LeRF: the mean of the logits recorded after steps 1 to F-1; NaN if there is no step.

    >>> mean_logit([3.0, 1.0]), mean_logit([])
    (2.0, nan)
    """
    curve = finite_vector("curve", curve)
    return float(curve.mean()) if len(curve) else math.nan


def delta(morf_curve: ArrayLike, lerf_curve: ArrayLike) -> float:
    """LeRF - MoRF: how well the scores tell relevant from irrelevant features.

    >>> delta([1.0, 0.0], [3.0, 2.0])
    2.0
    """
    return mean_logit(lerf_curve) - mean_logit(morf_curve)


def aopc_drop(output: float, morf_curve: ArrayLike) -> float:
    """The area over the perturbation curve as a drop: the mean over steps 1 to F-1 of f(x) - f(x_k), most relevant
    first.

    Samek et al. (2017) also count step 0, whose drop is 0; theirs is this times (F-1)/F.

    >>> aopc_drop(4.0, [3.0, 1.0])
    2.0
    """
    return output - mean_logit(morf_curve)


def deletion(output: float, morf_curve: ArrayLike) -> float:
    """The mean logit while features are deleted, most relevant first, over steps 0 (intact) to F-1.

    After Petsiuk et al. (2018), as a plain mean and without the state that has nothing left.

    >>> deletion(5.0, [3.0, 1.0])
    3.0
    """
    return _mean_with_intact(output, morf_curve)


def insertion(output: float, lerf_curve: ArrayLike) -> float:
    """The mean logit while features are added, most relevant first, from 1 feature kept to all F (intact).

    After Petsiuk et al. (2018), as a plain mean and without the state that has nothing in it. The state with j features
    kept is step F-j of the LeRF curve (see the head of this file).

    >>> insertion(5.0, [3.0, 1.0])
    3.0
    """
    return _mean_with_intact(output, lerf_curve)


def summarise(output: float, morf_curve: ArrayLike, lerf_curve: ArrayLike) -> CurveSummary:
    """All numbers of the two curves of one example.

    >>> summarise(4.0, [1.0], [3.0])
    CurveSummary(morf=1.0, lerf=3.0, delta=2.0, aopc=3.0, insertion=3.5, deletion=2.5)
    """
    morf_curve, lerf_curve = finite_vector("morf_curve", morf_curve), finite_vector("lerf_curve", lerf_curve)
    if len(morf_curve) != len(lerf_curve):
        raise InputError(
            f"the two curves must have the same number of steps, got {len(morf_curve)} (MoRF) and {len(lerf_curve)} "
            "(LeRF)"
        )
    return CurveSummary(
        morf=mean_logit(morf_curve),
        lerf=mean_logit(lerf_curve),
        delta=delta(morf_curve, lerf_curve),
        aopc=aopc_drop(output, morf_curve),
        insertion=insertion(output, lerf_curve),
        deletion=deletion(output, morf_curve),
    )


def _mean_with_intact(output: float, curve: ArrayLike) -> float:
    curve = finite_vector("curve", curve)
    # One feature alone has no step: undefined, although the intact state could be "averaged".
    return float((output + curve.sum()) / (len(curve) + 1)) if len(curve) else math.nan

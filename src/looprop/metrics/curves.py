"""How a removal curve becomes a number, and the metrics morf, lerf, delta, aopc, insertion and deletion.

With F features, `order` a removal order and f the target logit, step k (k = 1 .. F-1) is the state in which the first k
features of the order are removed. The state with nothing left is not used: what a model answers without any key depends
on the implementation.

The states of insertion and deletion are those of the two removal curves and the intact input, so nothing else needs
computing:

    deletion   removes most relevant first:  intact, MoRF step 1, ..., MoRF step F-1
    insertion  adds most relevant first, from 1 feature kept to all F.  The state with j kept is the one in which the
               F-j least relevant are removed:  LeRF step F-1, ..., LeRF step 1, intact

Insertion's order is thus the reverse of the LeRF order by definition. Between tied scores LeRF removes the lower
position first, so insertion adds the higher position first.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from numpy.typing import ArrayLike

from looprop.errors import InputError
from looprop.metrics.base import Case, CaseField, Metric, Vector, finite_vector, register


@dataclass(frozen=True)
class CurveSummary:
    """The numbers of one example's two removal curves; NaN for fewer than 2 features (no step)."""

    morf: float
    lerf: float
    delta: float
    aopc: float
    insertion: float
    deletion: float


def mean_logit(curve: ArrayLike) -> float:
    """MoRF or LeRF: the mean of the logits recorded after steps 1 to F-1; NaN if there is no step.

    >>> mean_logit([3.0, 1.0]), mean_logit([])
    (2.0, nan)
    """
    return _mean(finite_vector("curve", curve))


def delta(morf_curve: ArrayLike, lerf_curve: ArrayLike) -> float:
    """LeRF - MoRF: how well the scores tell relevant from irrelevant features.

    >>> delta([1.0, 0.0], [3.0, 2.0])
    2.0
    """
    return _delta(finite_vector("curve", morf_curve), finite_vector("curve", lerf_curve))


def aopc_drop(output: float, morf_curve: ArrayLike) -> float:
    """The area over the perturbation curve as a drop: the mean over steps 1 to F-1 of f(x) - f(x_k), most relevant
    first.

    Samek et al. (2017) also count step 0, whose drop is 0; theirs is this times (F-1)/F.

    >>> aopc_drop(4.0, [3.0, 1.0])
    2.0
    """
    return _drop(output, finite_vector("curve", morf_curve))


def deletion(output: float, morf_curve: ArrayLike) -> float:
    """The mean logit while features are deleted, most relevant first, over steps 0 (intact) to F-1.

    After Petsiuk et al. (2018), as a plain mean and without the state that has nothing left.

    >>> deletion(5.0, [3.0, 1.0])
    3.0
    """
    return _mean_with_intact(output, finite_vector("curve", morf_curve))


def insertion(output: float, lerf_curve: ArrayLike) -> float:
    """The mean logit while features are added, most relevant first, from 1 feature kept to all F (intact).

    After Petsiuk et al. (2018), as a plain mean and without the state that has nothing in it. The state with j features
    kept is step F-j of the LeRF curve (see the head of this file).

    >>> insertion(5.0, [3.0, 1.0])
    3.0
    """
    return _mean_with_intact(output, finite_vector("curve", lerf_curve))


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
        morf=_mean(morf_curve),
        lerf=_mean(lerf_curve),
        delta=_delta(morf_curve, lerf_curve),
        aopc=_drop(output, morf_curve),
        insertion=_mean_with_intact(output, lerf_curve),
        deletion=_mean_with_intact(output, morf_curve),
    )


# ----- the same of curves that are checked already, as those of a `Case` are


def _mean(curve: Vector) -> float:
    return float(curve.mean()) if len(curve) else math.nan


def _delta(morf_curve: Vector, lerf_curve: Vector) -> float:
    return _mean(lerf_curve) - _mean(morf_curve)


def _drop(output: float, morf_curve: Vector) -> float:
    return output - _mean(morf_curve)


def _mean_with_intact(output: float, curve: Vector) -> float:
    # One feature alone has no step: undefined, although the intact state could be "averaged".
    return float((output + curve.sum()) / (len(curve) + 1)) if len(curve) else math.nan


# ----- the metrics of these numbers


def _metric(
    name: str,
    *needs: CaseField,
    function: Callable[..., float],
    higher_is_better: bool,
    description: str,
    title: str = "",
) -> None:
    """Registers a metric that calls `function` with the needed fields of the case, in their order."""

    def value(case: Case) -> float:
        return function(*(getattr(case, need) for need in needs))

    register(Metric(name, description, higher_is_better, frozenset(needs), value, title=title))


_metric(
    "morf",
    "morf_curve",
    function=_mean,
    higher_is_better=False,
    description="mean logit while the most relevant features are removed first",
    title="MoRF",
)
_metric(
    "lerf",
    "lerf_curve",
    function=_mean,
    higher_is_better=True,
    description="mean logit while the least relevant features are removed first",
    title="LeRF",
)
_metric(
    "delta",
    "morf_curve",
    "lerf_curve",
    function=_delta,
    higher_is_better=True,
    description="LeRF - MoRF",
)
_metric(
    "aopc",
    "output",
    "morf_curve",
    function=_drop,
    higher_is_better=True,
    description="mean drop of the logit while the most relevant features are removed first",
)
_metric(
    "insertion",
    "output",
    "lerf_curve",
    function=_mean_with_intact,
    higher_is_better=True,
    description="mean logit from 1 feature kept to all, most relevant added first",
)
_metric(
    "deletion",
    "output",
    "morf_curve",
    function=_mean_with_intact,
    higher_is_better=False,
    description="mean logit from all features kept to 1, most relevant removed first",
)

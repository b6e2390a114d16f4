"""How a removal curve becomes a number, and the metrics morf, lerf, delta, aopc, insertion and deletion.

With F features and a removal order, step k (k = 1 .. F-1) is the state in which the first k features of the order are
removed. The state with nothing left is not used: what a model answers without any key depends on the implementation.

The states of insertion and deletion are those of the two removal curves and the intact input:

    deletion   removes most relevant first:  intact, MoRF step 1, ..., MoRF step F-1
    insertion  adds most relevant first, from 1 feature kept to all F:  LeRF step F-1, ..., LeRF step 1, intact

Insertion's order is thus the reverse of LeRF's: between tied scores it adds the higher position first.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from looprop.errors import InputError
from looprop.metrics.base import Case, CaseField, Metric, Vector, finite_vector, register


@dataclass(frozen=True)
class CurveSummary:
    """The numbers of one example's two removal curves; NaN for fewer than 2 features (no step).

    morf, lerf: the mean of the logits recorded after steps 1 to F-1. delta: LeRF - MoRF.
    aopc: the mean over steps 1 to F-1 of f(x) - f(x_k), most relevant first. Samek et al. (2017) also count step 0,
    whose drop is 0; theirs is this times (F-1)/F.
    insertion, deletion: the mean logit over the states above, the intact input among them. After Petsiuk et al. (2018),
    as a plain mean and without the state that has nothing left.
    """

    morf: float
    lerf: float
    delta: float
    aopc: float
    insertion: float
    deletion: float


def summarise(output: float, morf_curve: ArrayLike, lerf_curve: ArrayLike) -> CurveSummary:
    """All numbers of the two curves of one example.

    >>> summarise(4.0, [1.0], [3.0])
    CurveSummary(morf=1.0, lerf=3.0, delta=2.0, aopc=3.0, insertion=3.5, deletion=2.5)
    """
    morf_curve, lerf_curve = finite_vector("morf_curve", morf_curve), finite_vector("lerf_curve", lerf_curve)
    if len(morf_curve) != len(lerf_curve):
        got = f"{len(morf_curve)} (MoRF) and {len(lerf_curve)} (LeRF)"
        raise InputError(f"the two curves must have the same number of steps, got {got}")
    case = {"output": output, "morf_curve": morf_curve, "lerf_curve": lerf_curve}
    return CurveSummary(**{name: function(*(case[need] for need in needs)) for name, needs, function, *_ in METRICS})


def _mean(curve: Vector) -> float:
    return float(curve.mean()) if len(curve) else math.nan


def _delta(morf_curve: Vector, lerf_curve: Vector) -> float:
    return _mean(lerf_curve) - _mean(morf_curve)


def _drop(output: float, morf_curve: Vector) -> float:
    return output - _mean(morf_curve)


def _mean_with_intact(output: float, curve: Vector) -> float:
    # One feature alone has no step: undefined, although the intact state could be "averaged".
    return float((output + curve.sum()) / (len(curve) + 1)) if len(curve) else math.nan


MORF, LERF = "the most relevant features are removed first", "the least relevant features are removed first"
METRICS: tuple[tuple[str, tuple[CaseField, ...], Callable[..., float], bool, str, str], ...] = (
    ("morf", ("morf_curve",), _mean, False, f"mean logit while {MORF}", "MoRF"),
    ("lerf", ("lerf_curve",), _mean, True, f"mean logit while {LERF}", "LeRF"),
    ("delta", ("morf_curve", "lerf_curve"), _delta, True, "LeRF - MoRF", ""),
    ("aopc", ("output", "morf_curve"), _drop, True, f"mean drop of the logit while {MORF}", ""),
    (
        "insertion",
        ("output", "lerf_curve"),
        _mean_with_intact,
        True,
        "mean logit from 1 feature kept to all, most relevant added first",
        "",
    ),
    (
        "deletion",
        ("output", "morf_curve"),
        _mean_with_intact,
        False,
        "mean logit from all features kept to 1, most relevant removed first",
        "",
    ),
)
"""Name, what it needs of a case in the order of the function's arguments, the function, direction, words, title."""


def _register(name: str, needs: tuple[CaseField, ...], function: Callable[..., float], *about: Any) -> None:
    higher_is_better, description, title = about

    def value(case: Case) -> float:
        return function(*(getattr(case, need) for need in needs))

    register(Metric(name, description, higher_is_better, frozenset(needs), value, title=title))


for _metric in METRICS:
    _register(*_metric)

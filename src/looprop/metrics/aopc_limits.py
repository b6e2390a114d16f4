"""Normalised AOPC: where the area over a perturbation curve lies between the worst and the best that any order of
removal can reach on this text and this model. The metric naopc.

    NAOPC = (AOPC - worst) / (best - worst)             (Edin et al., ACL 2025)

AOPC itself depends on the model as much as on the scores: how far an answer can fall differs from text to text. Here 0
is the worst order and 1 the best. What always stays (special tokens) takes no part, in the curve as in its limits.
"""

import math
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from looprop.errors import InputError
from looprop.metrics.base import Case, Metric, Vector, finite_vector, register

ROUNDING = 1e-6  # limits that lie nearer to each other, relative to the values, are the same but for rounding


def area_over_curve(output: float, curve: ArrayLike) -> float:
    """AOPC: the mean over the steps of f(x) - f(x without the features removed so far); NaN without a step.

    >>> area_over_curve(4.0, [3.0, 1.0, 0.5, 0.5])
    2.75
    """
    values = finite_vector("curve", curve)
    return output - float(values.mean()) if len(values) else math.nan


def normalised_aopc(area: float, worst: float, best: float) -> float:
    """(area - worst) / (best - worst); NaN where no order differs from another. A beam's limits may be exceeded: the
    value may lie outside [0, 1] by as much as the beam missed.

    >>> normalised_aopc(2.0, 1.0, 5.0)
    0.25
    >>> normalised_aopc(1.0, 1.0, 1.0)
    nan
    """
    if best < worst:
        raise InputError(f"the best area must not lie below the worst, got {best} and {worst}")
    if not best - worst > ROUNDING * max(abs(best), abs(worst)):
        return math.nan
    return (area - worst) / (best - worst)


def _of_case(case: Case) -> float:
    plays, (worst, best) = cast(NDArray[np.bool_], case.plays), cast(Vector, case.aopc_limits).tolist()
    if plays.sum() < 2 or np.ptp(cast(Vector, case.curve_scores)[plays]) == 0:
        return math.nan
    return normalised_aopc(area_over_curve(cast(float, case.output), cast(Vector, case.player_curve)), worst, best)


register(
    Metric(
        name="naopc",
        title="NAOPC",
        description="area over the curve, most relevant removed first, between the worst order (0) and the best (1)",
        higher_is_better=True,
        needs=frozenset({"output", "player_curve", "aopc_limits"}),
        function=_of_case,
    )
)

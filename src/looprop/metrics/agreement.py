"""Metrics that compare scores with leave-one-out: loo-r, loo-spearman, loo-kendall, each with and without special
tokens; loo-sign.
"""

from typing import cast

import numpy as np
from numpy.typing import NDArray

from looprop.metrics.base import Case, Metric
from looprop.metrics.correlation import Correlation, Protocol, correlate, sign_agreement


def _correlation_metric(name: str, title: str, *, kind: str, protocol: Protocol = "raw", with_special: bool) -> Metric:
    def agreement(case: Case) -> Correlation:
        mask = None if with_special else np.logical_not(cast(NDArray[np.bool_], case.special))
        return correlate(case.scores, cast(NDArray[np.float64], case.loo), kind=kind, protocol=protocol, mask=mask)

    return Metric(
        name=name if with_special else f"{name}-no-special",
        description=f"{title} between scores and leave-one-out, {'with' if with_special else 'without'} special tokens",
        higher_is_better=True,
        needs=frozenset({"loo"}),
        function=lambda case: agreement(case).value,
        flipped=lambda case: agreement(case).flipped,
    )


def _pair(name: str, title: str, *, kind: str, protocol: Protocol = "raw") -> tuple[Metric, Metric]:
    with_special, without = (
        _correlation_metric(name, title, kind=kind, protocol=protocol, with_special=flag) for flag in (True, False)
    )
    return with_special, without


def _sign(case: Case) -> float:
    return sign_agreement(case.scores, cast(NDArray[np.float64], case.loo))


METRICS = (
    *_pair("loo-r", "Pearson's r", kind="pearson"),
    *_pair("loo-r-paper", "Pearson's r of maps normalised to sum to one", kind="pearson", protocol="paper"),
    *_pair("loo-spearman", "Spearman's rho", kind="spearman"),
    *_pair("loo-kendall", "Kendall's tau-b", kind="kendall"),
    Metric(
        name="loo-sign",
        description=(
            "share of features whose score has the sign of leave-one-out (features whose leave-one-out is 0 not "
            "counted)"
        ),
        higher_is_better=True,
        needs=frozenset({"loo"}),
        function=_sign,
    ),
)

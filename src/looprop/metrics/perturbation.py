"""Metrics that read removal curves: morf, lerf, delta, aopc, insertion, deletion."""

from collections.abc import Callable

from looprop.metrics import curves
from looprop.metrics.base import Case, Metric, Need


def _metric(
    name: str, *needs: Need, function: Callable[..., float], higher_is_better: bool, description: str
) -> Metric:
    """A metric that calls `function` with the needed fields of the case, in their order."""

    def value(case: Case) -> float:
        return function(*(getattr(case, need) for need in needs))

    return Metric(
        name=name, description=description, higher_is_better=higher_is_better, needs=frozenset(needs), function=value
    )


METRICS = (
    _metric(
        "morf",
        "morf_curve",
        function=curves.mean_logit,
        higher_is_better=False,
        description="mean logit while the most relevant features are removed first",
    ),
    _metric(
        "lerf",
        "lerf_curve",
        function=curves.mean_logit,
        higher_is_better=True,
        description="mean logit while the least relevant features are removed first",
    ),
    _metric(
        "delta",
        "morf_curve",
        "lerf_curve",
        function=curves.delta,
        higher_is_better=True,
        description="LeRF - MoRF",
    ),
    _metric(
        "aopc",
        "output",
        "morf_curve",
        function=curves.aopc_drop,
        higher_is_better=True,
        description="mean drop of the logit while the most relevant features are removed first",
    ),
    _metric(
        "insertion",
        "output",
        "lerf_curve",
        function=curves.insertion,
        higher_is_better=True,
        description="mean logit from 1 feature kept to all, most relevant added first",
    ),
    _metric(
        "deletion",
        "output",
        "morf_curve",
        function=curves.deletion,
        higher_is_better=False,
        description="mean logit from all features kept to 1, most relevant removed first",
    ),
)

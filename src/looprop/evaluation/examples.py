"""The examples of an evaluation one by one: on which of them methods disagree, and what each said of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from looprop.evaluation.summary import by_example, is_reference
from looprop.metrics import YARDSTICKS, get_metric
from looprop.naming import split_name
from looprop.result.explanation import Explanation
from looprop.result.explanations import Explanations
from looprop.running.parts import Row

SHOWN = 24
"""So many of the examples on which methods disagree most can be looked at."""


@dataclass(frozen=True)
class Disagreement:
    """How far methods are apart on one example, by one metric: the worst and the best method, with their values.

    matters: does any feature matter by itself? None where that is not known.
    """

    example: str
    worst: str
    best: str
    lowest: float
    highest: float
    matters: bool | None = None

    @property
    def gap(self) -> float:
        """Between the worst and the best method."""
        return abs(self.highest - self.lowest)


def kind_of(method: str) -> str:
    """What a method's scores say; nothing is known of maps that were computed elsewhere."""
    from looprop.methods.registry import CATALOGUE  # which needs torch

    name = split_name(method)[0]
    return "none" if method in YARDSTICKS else CATALOGUE[name].kind if name in CATALOGUE else "share"


def disagreements(rows: Sequence[Row], metrics: Sequence[str]) -> list[Disagreement]:
    """All examples by how far methods are apart by the first metric, the farthest first. References and scores that
    know nothing of the model have no say; where no feature matters a correlation is noise, and they come last.
    """
    if not metrics:
        return []
    metric, found = get_metric(metrics[0]), []
    for example, own in by_example(rows).items():
        values = {
            row["method"]: row[metric.name]
            for row in own
            if not row["error"]
            and math.isfinite(row[metric.name])
            and not is_reference(row["method"], metric)
            and kind_of(row["method"]) != "none"
        }
        if not values:
            continue
        sign = 1 if metric.higher_is_better else -1
        order = sorted(values, key=lambda method: sign * values[method])
        worst, best = order[0], order[-1]
        found.append(Disagreement(example, worst, best, values[worst], values[best], own[0].get("loo_matters")))
    return sorted(found, key=lambda one: (one.matters is False, -one.gap))


def said_of(frame: Explanation, rows: Sequence[Row]) -> Explanations:
    """What every method said of an example, from the rows of it that hold scores."""
    known = [row for row in rows if not row["error"] and len(row["scores"]) == len(frame)]
    return Explanations(
        replace(
            frame,
            method=row["method"],
            scores=np.array(row["scores"]),
            cost=_known(row["cost"]),
            seconds=_known(row["seconds"]),
            details={**frame.details, "kind": kind_of(row["method"])},
        )
        for row in known
    )


def _known(value: float) -> float:
    return value if math.isfinite(value) else 0.0

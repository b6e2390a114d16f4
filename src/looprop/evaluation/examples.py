"""The examples of an evaluation one by one: on which of them methods disagree, what each said of it, and a part of a
page that shows them folded, in the order of disagreement, to be filtered and sorted.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from looprop.display import comparison, escape, facts, number
from looprop.display.data import chance
from looprop.evaluation.summary import by_example
from looprop.metrics import YARDSTICKS, get_metric
from looprop.naming import split_name
from looprop.result.explanation import Explanation, Explanations
from looprop.running.parts import Row

SHOWN = 24
"""So many of the examples on which methods disagree most can be looked at."""
OPEN = 1
"""So many are open at first."""
LONGEST = 280
"""Characters of a text in its line."""


@dataclass(frozen=True)
class Opposed:
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
    if method in YARDSTICKS:
        return "none"
    return "share" if (known := CATALOGUE.get(name)) is None else known.kind


def disagreements(rows: Sequence[Row], metrics: Sequence[str]) -> list[Opposed]:
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
            and row["method"] not in metric.needs
            and kind_of(row["method"]) != "none"
        }
        if not values:
            continue
        sign = 1 if metric.higher_is_better else -1
        order = sorted(values, key=lambda method: sign * values[method])
        worst, best = order[0], order[-1]
        found.append(Opposed(example, worst, best, values[worst], values[best], own[0].get("loo_matters")))
    return sorted(found, key=lambda one: (one.matters is False, -one.gap))


def said_of(frame: Explanation, rows: Sequence[Row]) -> Explanations:
    """What every method said of an example, from the rows of it that hold scores."""
    known = [row for row in rows if not row["error"] and len(row["scores"]) == len(frame.features)]
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


def examples_html(frames: Mapping[str, Explanation], rows: Sequence[Row], order: Sequence[Opposed], *, by: str) -> str:
    """The examples whose texts are known, each with what all methods said of it. by: what the metric is called by which
    they are ordered.
    """
    of_example = by_example(rows)
    places = {name: place for place, name in enumerate(of_example)}
    shown = [one for one in order if one.example in frames]
    parts = [
        _example(one, by, frames[one.example], of_example[one.example], places[one.example], opened=i < OPEN)
        for i, one in enumerate(shown)
    ]
    if not parts:
        return ""
    return f'<div class="examples">{_tools(sorted({frames[one.example].label for one in shown}))}{"".join(parts)}</div>'


def _tools(labels: Sequence[str]) -> str:
    kinds = "".join(f'<option value="{escape(label)}">{escape(label)}</option>' for label in labels)
    kind = f'<label>predicted <select class="kind"><option value="">any</option>{kinds}</select></label>'
    return (
        '<div class="tools"><label>find <input type="search" class="search" placeholder="words of a text"></label>'
        f'{kind if len(labels) > 1 else ""}<label>first <select class="order">'
        '<option value="rank">where methods disagree most</option><option value="-rank">where they agree</option>'
        '<option value="place">in the order of the data</option><option value="-length">the longest</option>'
        '<option value="length">the shortest</option></select></label><span class="count"></span></div>'
    )


def _example(one: Opposed, by: str, frame: Explanation, rows: Sequence[Row], place: int, *, opened: bool) -> str:
    text = " ".join(frame.text.split()) or one.example
    short = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    apart = f"{by}: {one.worst} {number(one.lowest)}, {one.best} {number(one.highest)}"
    noise = "; no feature matters by itself here, so that this is noise" if one.matters is False else ""
    known: list[tuple[str, str]] = [("example", one.example), ("predicted", frame.label)]
    if isinstance(probability := frame.details.get("probability"), float):
        known.append(("probability", chance(probability)))
    known.append(("output", number(frame.output)))
    inside = "".join(comparison(views) for views in said_of(frame, rows).views())
    rank = -one.gap if one.matters is not False else 10 - one.gap
    return (
        f'<details class="example linking" data-text="{escape(text)}" data-kind="{escape(frame.label)}" '
        f'data-rank="{rank:.6f}" data-place="{place}" data-length="{len(frame.features)}"{" open" if opened else ""}>'
        f"<summary>{escape(short)}<small>{escape(apart + noise)}</small></summary>{facts(known)}{inside}</details>"
    )

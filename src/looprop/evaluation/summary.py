"""Means over examples, with their confidence intervals, and who beats whom."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from looprop.errors import InputError, UnknownNameError
from looprop.metrics import MATTERS, REFERENCES, Comparison, Estimate, bootstrap_mean, compare_all, get_metric
from looprop.models.cutting import Cut, cut_of
from looprop.naming import split_name
from looprop.running.parts import Row

CUT_COLUMNS = ("tokens_read", "tokens")


@dataclass(frozen=True)
class MethodSummary:
    """One method over all examples.

    metrics: mean, interval, number of examples and number of undefined ones, by metric. cost and seconds: means per
        example.
    flipped: the share of examples whose sign the normalisation of protocol "paper" turned; None under protocol "raw".
    errors: examples on which the method failed. notes: examples on which it gave a warning.
    """

    method: str
    metrics: Mapping[str, Estimate]
    cost: float
    seconds: float
    flipped: float | None
    errors: int
    notes: int

    def to_dict(self) -> dict[str, Any]:
        """One flat record: every metric with its bounds, its number of examples and of undefined values."""
        flat: dict[str, Any] = {"method": self.method}
        for name, found in self.metrics.items():
            flat |= {name: found.mean, f"{name}-low": found.low, f"{name}-high": found.high}
            flat |= {f"{name}-n": found.count, f"{name}-undefined": found.undefined}
        return flat | {name: getattr(self, name) for name in ("cost", "seconds", "flipped", "errors", "notes")}


def summarise_rows(
    rows: Sequence[Row], metrics: Sequence[str], *, confidence: float = 0.95, seed: int = 0
) -> list[MethodSummary]:
    """One summary per method, in the order in which methods occur."""
    if not rows:
        raise InputError("there are no rows to summarise")
    found = []
    for method, own in by_method(rows).items():
        done = [row for row in own if not row["error"]]
        turned = [row["flipped"] for row in done if row["flipped"] is not None]
        found.append(
            MethodSummary(
                method=method,
                metrics={
                    name: bootstrap_mean([row[name] for row in own], confidence=confidence, seed=seed)
                    for name in metrics
                },
                cost=_mean([row["cost"] for row in done]),
                seconds=_mean([row["seconds"] for row in done]),
                flipped=sum(turned) / len(turned) if turned else None,
                errors=len(own) - len(done),
                notes=sum(bool(row["note"]) for row in own),
            )
        )
    return found


def by_method(rows: Sequence[Row], *, name: str = "method") -> dict[str, list[Row]]:
    """The rows of each method."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[name], []).append(row)
    return groups


def by_example(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each example."""
    return by_method(rows, name="example")


def values_of(rows: Sequence[Row], metric: str) -> dict[str, list[float]]:
    """A metric's values by method, every method on the same examples in the same order."""
    groups = by_method(rows)
    order = [row["example"] for row in next(iter(groups.values()))]
    values = {}
    for method, own in groups.items():
        by_example = {row["example"]: row[metric] for row in own}
        values[method] = [by_example.get(example, math.nan) for example in order]
    return values


def unmoved(rows: Sequence[Row]) -> dict[str, tuple[int, int]]:
    """On how many examples no feature matters to a reference, and of how many that is known, by reference."""
    done = [own[-1] for own in by_example([row for row in rows if not row["error"]]).values()]
    found = {}
    for reference in REFERENCES:
        known = [row for row in done if row.get(f"{reference}_matters") is not None]
        if known:
            found[reference] = (sum(not row[f"{reference}_matters"] for row in known), len(known))
    return found


def cut_columns(cut: tuple[int, int] | None) -> Row:
    """What the rows of an example say of its cut; those of a text that is whole say nothing."""
    return {} if cut is None else dict(zip(CUT_COLUMNS, cut, strict=True))


def cut_of_rows(rows: Sequence[Row]) -> Cut | None:
    """What was cut of the examples; None where all texts are whole."""
    tokens = [[own[0].get(column) for column in CUT_COLUMNS] for own in by_example(rows).values()]
    return cut_of([None if read is None or whole is None else (read, whole) for read, whole in tokens])


def notes_of(rows: Sequence[Row], metrics: Sequence[str]) -> list[str]:
    """What a reader of the means must know: which texts were cut, where a reference has nothing to say, and what
    references cost.
    """
    needs = {need for name in metrics for need in get_metric(name).needs}
    said = [str(cut)] if (cut := cut_of_rows(rows)) else []
    for reference, (count, total) in unmoved(rows).items():
        if reference in needs and count:
            said.append(
                f"On {count} of {total} examples no feature matters by itself to {REFERENCES[reference]}: none has "
                f"{100 * MATTERS:g} % of f(x) - f(nothing), and a correlation there is made of noise. The means have "
                f"them in; mattering({reference!r}) leaves them out."
            )
    spent = {row["example"]: row["reference_cost"] for row in rows if row.get("reference_cost") is not None}
    if spent and needs & {"shapley", "aopc_limits", "removed_drops"}:
        said.append(f"What methods are measured with cost {_mean(list(spent.values())):.0f} forward passes an example.")
    inexact = {row["example"] for row in rows if row.get("limits_exact") is False}
    if inexact and "aopc_limits" in needs:
        said.append(f"The limits of AOPC are those of a beam search on {len(inexact)} examples, exact on the others.")
    return said


def removal_notes(about: Mapping[str, Any]) -> list[str]:
    """Which methods estimate another removal than that of the leave-one-out they are measured against."""
    by = about.get("removals")
    if not isinstance(by, Mapping) or not by.get("reference"):
        return []
    others: dict[str, list[str]] = {}
    for method, removal in (by.get("methods") or {}).items():
        if removal and removal != by["reference"]:
            others.setdefault(str(removal), []).append(method)
    return [
        f"{', '.join(methods)}: estimates removal by {removal}, and is measured here against removal by "
        f"{by['reference']}; removal={removal!r} measures it against its own."
        for removal, methods in others.items()
    ]


def exact_notes(rows: Sequence[Row]) -> list[str]:
    """On how many examples `looprop` took exact leave-one-out, which it does where that is no dearer."""
    said = []
    for method, own in by_method([row for row in rows if not row["error"]]).items():
        if split_name(method)[0] != "looprop":
            continue
        same = sum(_same(row.get("scores", ()), row.get("loo", ())) for row in own)
        if same:
            said.append(
                f"On {same} of {len(own)} examples the scores of {method} are exact leave-one-out: it takes that where "
                "it is the cheaper one."
            )
    return said


def _same(scores: Sequence[float], loo: Sequence[float]) -> bool:
    size = max(map(abs, loo), default=0.0)
    alike = len(scores) == len(loo) > 0
    return alike and all(abs(a - b) <= 1e-5 * size for a, b in zip(scores, loo, strict=True))


def cheaper_loo(summary: Sequence[MethodSummary]) -> list[str]:
    """Which methods took longer than leave-one-out itself, as measured."""
    loo = next((found for found in summary if found.method == "loo"), None)
    if loo is None or not loo.seconds > 0:
        return []
    slower = [
        f"{found.method} ({1000 * found.seconds:.0f} ms)"
        for found in summary
        if found.seconds > loo.seconds and split_name(found.method)[0] not in REFERENCES
    ]
    if not slower:
        return []
    return [
        f"Exact leave-one-out took {1000 * loo.seconds:.0f} ms an example here, less than {', '.join(slower)}: on "
        "inputs of this length it is the cheaper one."
    ]


def compare_methods(
    rows: Sequence[Row], metric: str, *, metrics: Sequence[str], seed: int = 0
) -> tuple[Comparison, ...]:
    """Every pair of methods: which is better by this metric, and how sure that is after Holm's correction.

    Leave-one-out takes no part where it is itself the reference, nor do Shapley values.
    """
    if metric not in metrics:
        raise UnknownNameError("metric of this evaluation", metric, metrics)
    by = get_metric(metric)
    values = {method: own for method, own in values_of(rows, metric).items() if method not in by.needs}
    return compare_all(values, higher_is_better=by.higher_is_better, seed=seed)


def _mean(values: Sequence[float]) -> float:
    defined = [value for value in values if not math.isnan(value)]
    return sum(defined) / len(defined) if defined else math.nan

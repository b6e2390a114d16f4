"""The tables of a run against both references."""

from collections.abc import Sequence

import numpy as np

from looprop.display.data import number
from looprop.evaluation.summary import by_method
from looprop.metrics import bootstrap_mean
from looprop.running.parts import Row
from looprop.study import Grid, Measured, Run
from looprop.study.report.grids import Cells, name_of

from .claims import closeness, layer_plans_of
from .measuring import METRICS, REFERENCES

CLOSER = {True: "Shapley", False: "LOO", None: "undecided"}


def truth_tables(run: Run) -> list[Grid]:
    """All methods; single layers; the texts in which something matters; the references themselves."""
    plans = layer_plans_of(run)
    others = [method for method in by_method(run.rows) if method not in plans]
    title = f"r to both references: {run.data_title}, {run.model}"
    tables = [_agreement(run.rows, others, title)]
    if plans:
        tables.append(_agreement(run.rows, ["attnlrp", *plans, "cp-lrp"], "CP-LRP in one layer, AttnLRP in the others"))
    mattering = [row for row in run.rows if all(row.get(f"{name}_matters") for name in REFERENCES)]
    if mattering and len(mattering) < len(run.rows):
        count = len({row["example"] for row in mattering})
        tables.append(
            _agreement(mattering, others, f"The same on the {count} texts in which to both some feature matters")
        )
    return [*tables, _references(run)]


def _agreement(rows: Sequence[Row], methods: Sequence[str], title: str) -> Grid:
    groups = by_method(rows)
    found = closeness(rows, [m for m in methods if m != "loo" and not m.startswith("shapley")])
    table: list[Cells] = []
    for method in methods:
        own = groups.get(method, [])
        cells: Cells = [name_of(method)]
        cells += [Measured.of(bootstrap_mean([row[metric] for row in own])) for metric in METRICS]
        if method in found:
            c = found[method]
            cells += [Measured(c.difference.mean, digits=3), f"{c.adjusted_p:.2g}", CLOSER[c.decided]]
        else:
            cells += ["–", "–", "a reference"]
        costs = [row["cost"] for row in own if not np.isnan(row["cost"])]
        failed = sum(bool(row["error"]) for row in own)
        table.append([*cells, number(float(np.mean(costs)), signed=False) if costs else "–", str(failed)])
    header = ["method", "r to LOO", "r to Shapley", "difference", "adjusted p", "closer to", "cost", "failed"]
    note = (
        "Of the features that do not always stay, without special tokens. In brackets 95 % bootstrap intervals; "
        "difference: r to Shapley minus r to LOO, two-sided sign-flip tests over examples, adjusted by Holm's method "
        "for all methods of the table. Cost: forward passes."
    )
    return Grid(title, header, table, note)


def _references(run: Run) -> Grid:
    """How well the references are known, and in how many texts they say that nothing matters."""
    one = {row["example"]: row for row in run.rows if not row["error"]}.values()
    relative = [row["shapley_error"] / max(map(abs, row["shapley"])) for row in one if any(row["shapley"])]
    exact = sum(row["shapley_error"] == 0 for row in one)
    rows: list[Cells] = [
        ["texts", str(len(one))],
        ["features that play, mean", number(float(np.mean([row["features"] for row in one])), signed=False)],
        ["Shapley values over all sets", str(exact)],
        ["largest standard error over the largest score, median", f"{100 * float(np.median(relative)):.1f} %"],
        ["the same, worst text", f"{100 * max(relative):.1f} %"],
        ["texts in which no feature matters to LOO", str(sum(not row["loo_matters"] for row in one))],
        ["texts in which no feature matters to Shapley", str(sum(not row["shapley_matters"] for row in one))],
    ]
    note = (
        "A feature matters if its effect is at least 5 % of f(x) - f(nothing). No text was left out of a mean for it."
    )
    return Grid("The references", ["", "value"], rows, note, sortable=False)

"""The tables of the networks of RQ1 and of the toys of section 3.2."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from safetensors import safe_open

from looprop.evaluation.summary import by_method
from looprop.metrics import bootstrap_mean
from looprop.running.parts import Row
from looprop.study.kinds.networks import LEFT, POINT, RIGHT
from looprop.study.kinds.toys import REFERENCES
from looprop.study.published import published
from looprop.study.report.grids import Cells, Grid, Number
from looprop.study.report.names import TITLES, name_of
from looprop.study.reproducing import Run

PAIRS = ("L vs R", "L vs LOO", "R vs LOO")


def bilinear_grids(run: Run) -> list[Grid]:
    images = [row for row in run.rows if row["seed"] >= 0]
    found = [
        _table_1(images, run, "", "raw scores"),
        _table_1(images, run, "-paper", "maps normalised to sum to one, as in the paper"),
    ]
    found += [_flips(images), _curves(images), _accuracies(run)]
    product = [row for row in run.rows if row["example"] == "product"]
    return [_product(product), *found]


def _table_1(rows: Sequence[Row], run: Run, ending: str, how: str) -> Grid:
    table: list[Cells] = []
    for method, own in by_method(rows).items():
        paper = published("bilinear", "mnist", method)
        columns = (
            ("l-r", LEFT, f"l-r{ending}"),
            ("loo-r L", LEFT, f"loo-r{ending}"),
            ("loo-r R", RIGHT, f"loo-r{ending}"),
        )
        cells = [_over_seeds(own, side, column, paper.get(name)) for name, side, column in columns]
        table.append([name_of(method), *cells])
    seeds = len({row["seed"] for row in rows})
    note = (
        f"Mean over {seeds} seeds of {run.manifest['examples']} images each; in brackets the lowest and highest seed. "
    )
    note += "L is Q (K^T V), R is (Q K^T) V."
    return Grid(f"Table 1, {how}: {run.manifest['data_title']}", ["method", *PAIRS], table, note, frozenset(PAIRS))


def _over_seeds(rows: Sequence[Row], side: str, column: str, paper: float | None = None, digits: int = 4) -> Number:
    """The mean over seeds, with the lowest and highest seed."""
    groups: dict[int, list[float]] = {}
    for row in rows:
        if row["network"] == side:
            groups.setdefault(row["seed"], []).append(math.nan if row[column] is None else float(row[column]))
    means = [bootstrap_mean(values, resamples=1).mean for values in groups.values()]
    return Number(float(np.mean(means)), min(means), max(means), sum(map(len, groups.values())), paper, digits)


def _flips(rows: Sequence[Row]) -> Grid:
    table: list[Cells] = [
        [
            name_of(method),
            _over_seeds(own, LEFT, "l-r-flipped"),
            _over_seeds(own, LEFT, "flipped"),
            _over_seeds(own, RIGHT, "flipped"),
        ]
        for method, own in by_method(rows).items()
    ]
    note = (
        "The share of images in which dividing both maps by their sums turns the sign of r: exactly one of the sums is "
        "negative."
    )
    return Grid("Sign flips by normalisation", ["method", *PAIRS], table, note)


def _curves(rows: Sequence[Row]) -> Grid:
    columns = [(metric, side) for side in (LEFT, RIGHT) for metric in ("lerf", "morf", "delta")]
    table: list[Cells] = [
        [name_of(method), *(_over_seeds(own, side, metric, digits=2) for metric, side in columns)]
        for method, own in by_method(rows).items()
    ]
    return Grid(
        "Removal curves", ["method", *(f"{TITLES.get(metric, metric)} {side}" for metric, side in columns)], table
    )


def _accuracies(run: Run) -> Grid:
    rows = []
    for path in sorted((run.folder / "networks").glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            about: Mapping[str, str] = file.metadata()
        rows.append([f"seed {about['seed']}", f"{100 * float(about['accuracy']):.2f} %"])
    return Grid(
        "Test accuracy of the networks (all test images)",
        ["network", "accuracy"],
        rows,
        "The paper's networks have about 85 %.",
    )


def _product(rows: Sequence[Row]) -> Grid:
    grouping = {LEFT: "(x1 x2) x3", RIGHT: "x1 (x2 x3)"}
    table: list[Cells] = [
        [name_of(row["method"]), grouping[row["network"]], *(Number(score) for score in row["scores"])] for row in rows
    ]
    return Grid(f"Figure 1: x1 x2 x3 at {POINT}", ["method", "computed as", "x1", "x2", "x3"], table)


def softmax_grids(run: Run) -> list[Grid]:
    found = []
    for case in dict.fromkeys(row["example"] for row in run.rows):
        rows = [row for row in run.rows if row["example"] == case]
        width = len(rows[0]["scores"])
        header = [
            "method",
            *(f"x{i + 1}" for i in range(width)),
            "sum",
            "r to LOO (mask)",
            "r to LOO (zero)",
            "error to LOO (mask)",
        ]
        table: list[Cells] = [
            [
                row["method"],
                *(Number(s, digits=4) for s in row["scores"]),
                Number(row["sum"], digits=4),
                *(Number(row[f"r to {name}"], digits=3) for name in REFERENCES),
                Number(row[f"error to {REFERENCES[0]}"], digits=4),
            ]
            for row in rows
        ]
        lost = (
            f"the softmax rule receives {rows[0]['softmax relevance in']:.4f} and passes on "
            f"{rows[0]['softmax relevance out']:.4f}"
        )
        found.append(
            Grid(case, header, table, f"f = {rows[0]['output']:.4f}; {lost}. An r of constant scores is undefined.")
        )
    return found

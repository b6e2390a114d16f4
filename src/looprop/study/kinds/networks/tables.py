"""The tables of RQ1: figure 1, table 1, and what surrounds them."""

from collections.abc import Sequence

import numpy as np

from looprop.evaluation.summary import by_method
from looprop.running.parts import Row
from looprop.study.kinds.networks.pairs import LEFT, RIGHT, by_seed, of_product, seed_means
from looprop.study.kinds.networks.product import POINT
from looprop.study.kinds.networks.training import accuracies
from looprop.study.published import published
from looprop.study.report.grids import Cells, Grid, Measured
from looprop.study.report.names import name_of, title_of
from looprop.study.run import Run

PAIRS = ("L vs R", "L vs LOO", "R vs LOO")


def network_tables(run: Run) -> list[Grid]:
    """All tables of a run."""
    images = [row for own in by_seed(run.rows).values() for row in own]
    return [
        _product(of_product(run.rows)),
        _table_1(images, run, "", "raw scores"),
        _table_1(images, run, "-paper", "maps normalised to sum to one, as in the paper"),
        _flips(images),
        _curves(images),
        _accuracies(run),
    ]


def _product(rows: Sequence[Row]) -> Grid:
    grouping = {LEFT: "(x1 x2) x3", RIGHT: "x1 (x2 x3)"}
    table: list[Cells] = [
        [name_of(row["method"]), grouping[row["network"]], *(Measured(score) for score in row["scores"])]
        for row in rows
    ]
    return Grid(f"Figure 1: x1 x2 x3 at {POINT}", ["method", "computed as", "x1", "x2", "x3"], table)


def _table_1(rows: Sequence[Row], run: Run, ending: str, how: str) -> Grid:
    """ending: of the columns that correlate the maps in this way."""
    columns = (
        ("l-r", LEFT, f"l-r{ending}"),
        ("loo-r L", LEFT, f"loo-r{ending}"),
        ("loo-r R", RIGHT, f"loo-r{ending}"),
    )
    table: list[Cells] = []
    for method, own in by_method(rows).items():
        paper = published("bilinear", "mnist", method)
        cells = [_over_seeds(own, side, column, paper.get(name)) for name, side, column in columns]
        table.append([name_of(method), *cells])
    note = (
        f"Mean over {len(by_seed(rows))} seeds of {run.manifest['examples']} images each; in brackets the lowest and "
        "highest seed. L is Q (K^T V), R is (Q K^T) V."
    )
    return Grid(f"Table 1, {how}: {run.data_title}", ["method", *PAIRS], table, note, frozenset(PAIRS))


def _over_seeds(rows: Sequence[Row], side: str, column: str, paper: float | None = None, digits: int = 4) -> Measured:
    """The mean over seeds, with the lowest and highest seed."""
    means = seed_means(rows, side, column)
    count = sum(row["network"] == side for row in rows)
    return Measured(float(np.mean(means)), min(means), max(means), count, paper, digits)


def _flips(rows: Sequence[Row]) -> Grid:
    columns = ((LEFT, "l-r-flipped"), (LEFT, "flipped"), (RIGHT, "flipped"))
    table: list[Cells] = [
        [name_of(method), *(_over_seeds(own, side, column) for side, column in columns)]
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
    header = ["method", *(f"{title_of(metric)} {side}" for metric, side in columns)]
    return Grid("Removal curves", header, table)


def _accuracies(run: Run) -> Grid:
    table: list[Cells] = [[f"seed {seed}", f"{100 * share:.2f} %"] for seed, share in accuracies(run.folder)]
    note = "The paper's networks have about 85 %."
    return Grid("Test accuracy of the networks (all test images)", ["network", "accuracy"], table, note)

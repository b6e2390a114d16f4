"""Networks (RQ1): the scalar product in its two groupings, and two linear-attention networks with shared weights.

What a run shows: figure 1, table 1 and what surrounds them, and the paper's claims: which methods depend on the order
of multiplication, and which are near leave-one-out.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from looprop.errors import DataError
from looprop.evaluation.setup import Setup
from looprop.evaluation.summary import by_method
from looprop.inputs.mnist import load_mnist
from looprop.metrics import bootstrap_mean
from looprop.progress import progress_bar
from looprop.running.missing import Work
from looprop.running.parts import Row
from looprop.study.claims import HARDLY, JudgedClaim, published
from looprop.study.kind import About, Job, Kind, Options
from looprop.study.kinds.networks.pairs import (
    LEFT,
    POINT,
    RIGHT,
    PairTask,
    by_seed,
    measure_pair,
    of_product,
    seed_means,
    seed_of,
)
from looprop.study.kinds.networks.training import accuracies, draw_digits, trained
from looprop.study.report.grids import Cells, Grid, Measured, name_of, title_of
from looprop.study.run import Run
from looprop.study.spec import Spec

DATA = "mnist"


class Networks(Kind):
    """Per seed a network to train; per seed and image a task; and the scalar product."""

    def check(self, spec: Spec) -> None:
        for name, of_data in spec.data.items():
            if of_data.skip:
                raise DataError(f"skip is for experiments of kind 'texts', got it on {name}")
        if DATA not in spec.data:
            raise DataError(f"an experiment of kind {spec.kind!r} runs on {DATA}, got {', '.join(spec.data)}")

    def job(self, spec: Spec, options: Options) -> Job:
        options.check_unused("model", "loo_from", "references", because=f"{spec.name} trains its own networks")
        if options.data not in (None, DATA):
            raise DataError(f"{spec.name} runs on {DATA}, got data {options.data!r}")
        training, test = load_mnist("train"), load_mnist(spec.data[DATA].split or "test")
        digits = draw_digits(test, limit=options.limit, seed=options.seed)
        setup = Setup(spec.methods, spec.metrics, seed=options.seed)
        identity = {
            "spec": spec.to_dict(data=DATA),
            "setup": setup.to_dict(),
            "data": {"training": training.hash, "test": test.hash, "examples": len(digits.names), "of": digits.total},
            "limit": options.limit,
            "seed": options.seed,
        }

        def prepare(folder: Path, *, progress: bool) -> Work:
            networks = {}
            with progress_bar("training networks", spec.seeds, show=progress) as advance:
                for seed in range(spec.seeds):
                    networks[seed] = trained(folder, training, test, seed)
                    advance()
            return partial(measure_pair, networks, setup=setup)

        tasks = [PairTask("product", torch.tensor(POINT))]
        for seed in range(spec.seeds):
            named = zip(digits.names, digits.pixels, strict=True)
            tasks += [PairTask(f"seed {seed}/{name}", pixels, seed=seed) for name, pixels in named]
        title = f"{spec.name}: {digits.title}, {spec.seeds} seeds"
        about = About("linear attention", DATA, digits.title, subset=digits.subset, examples=len(digits.names))
        return Job(title, tasks, prepare, identity, about)

    def tables(self, run: Run) -> list[Grid]:
        images = [row for own in by_seed(run.rows).values() for row in own]
        networks = [[f"seed {seed}", f"{100 * share:.2f} %"] for seed, share in accuracies(run.folder)]
        note = "The paper's networks have about 85 %."
        return [
            _product(of_product(run.rows)),
            _table_1(images, run, "", "raw scores"),
            _table_1(images, run, "-paper", "maps normalised to sum to one, as in the paper"),
            _over_seeds("Sign flips by normalisation", PAIRS, images, FLIPS, FLIPS_NOTE),
            _over_seeds("Removal curves", CURVES.values(), images, [*CURVES], digits=2),
            Grid("Test accuracy of the networks (all test images)", ["network", "accuracy"], networks, note),
        ]

    def claims(self, run: Run) -> list[JudgedClaim]:
        return [*network_claims(run)]


PAIRS = ("L vs R", "L vs LOO", "R vs LOO")
FLIPS = [("", LEFT, "l-r-flipped"), ("", LEFT, "flipped"), ("", RIGHT, "flipped")]
FLIPS_NOTE = (
    "The share of images in which dividing both maps by their sums turns the sign of r: exactly one of the sums is "
    "negative."
)
CURVES = {("", side, m): f"{title_of(m)} {side}" for side in (LEFT, RIGHT) for m in ("lerf", "morf", "delta")}


def _product(rows: Sequence[Row]) -> Grid:
    grouping = {LEFT: "(x1 x2) x3", RIGHT: "x1 (x2 x3)"}
    table: list[Cells] = [
        [name_of(row["method"]), grouping[row["network"]], *(Measured(score) for score in row["scores"])]
        for row in rows
    ]
    return Grid(f"Figure 1: x1 x2 x3 at {POINT}", ["method", "computed as", "x1", "x2", "x3"], table)


def _table_1(rows: Sequence[Row], run: Run, ending: str, how: str) -> Grid:
    """ending: of the columns that correlate the maps in this way."""
    columns = [("l-r", LEFT, f"l-r{ending}"), *((f"loo-r {side}", side, f"loo-r{ending}") for side in (LEFT, RIGHT))]
    note = (
        f"Mean over {len(by_seed(rows))} seeds of {run.manifest['examples']} images each; in brackets the lowest and "
        "highest seed. L is Q (K^T V), R is (Q K^T) V."
    )
    title = f"Table 1, {how}: {run.data_title}"
    return _over_seeds(title, PAIRS, rows, columns, note, compared=frozenset(PAIRS))


def _over_seeds(
    title: str,
    header: Iterable[str],
    rows: Sequence[Row],
    columns: Sequence[tuple[str, str, str]],
    note: str = "",
    *,
    compared: frozenset[str] = frozenset(),
    digits: int = 4,
) -> Grid:
    """Means over seeds by method, with the lowest and highest seed. columns: what the paper's table calls it, the
    implementation, and the column of the rows.
    """
    table: list[Cells] = []
    for method, own in by_method(rows).items():
        paper, cells = published("bilinear", "mnist", method), []
        for name, side, column in columns:
            means, count = seed_means(own, side, column), sum(row["network"] == side for row in own)
            cells.append(Measured(float(np.mean(means)), min(means), max(means), count, paper.get(name), digits))
        table.append([name_of(method), *cells])
    return Grid(title, ["method", *header], table, note, compared)


ATTNLRP = "attnlrp[epsilon=1e-6]"
NEARLY_ONE = 0.99995
"""Rounds to the 1.0000 that the paper prints."""


def network_claims(run: Run) -> Iterator[JudgedClaim]:
    """The claims for which a run has rows."""
    images = [row for row in run.rows if seed_of(row) is not None]
    for method in ("loo", "ig"):
        if means := _means(images, method, LEFT, "l-r"):
            claim = f"{name_of(method)} does not depend on the implementation"
            ours = f"r(L, R) = {min(means):.6f} to {max(means):.6f} over {len(means)} seeds"
            yield JudgedClaim(claim, "r(L, R) = 1.0000", ours, min(means) >= NEARLY_ONE)
    for column, how in (("l-r", "raw"), ("l-r-paper", "normalised to sum to one")):
        if means := _means(images, ATTNLRP, LEFT, column):
            own = [row[column] for row in images if row["method"] == ATTNLRP and row["network"] == LEFT]
            e = bootstrap_mean(own)
            claim = f"AttnLRP depends on the implementation ({how})"
            ours = f"r(L, R) = {e.mean:.4f} [{e.low:.4f}, {e.high:.4f}], by seed {min(means):.4f} to {max(means):.4f}"
            yield JudgedClaim(claim, "r(L, R) = 0.7865", ours, e.high < 1 and max(means) < 1)
    sides = {side: _means(images, ATTNLRP, side, "loo-r-paper") for side in (LEFT, RIGHT)}
    if all(sides.values()):
        ours = "; ".join(f"{side} {_range(means)}" for side, means in sides.items())
        near_zero = all(abs(float(np.mean(means))) < HARDLY for means in sides.values())
        claim = "AttnLRP hardly correlates with LOO on these networks"
        yield JudgedClaim(claim, "L +0.0730; R −0.0698", ours, near_zero)
    if means := _means(images, "ig", LEFT, "loo-r-paper"):
        claim = "IG correlates negatively with LOO on these networks"
        yield JudgedClaim(claim, "−0.3707", _range(means), max(means) < 0)


def _means(images: Sequence[Row], method: str, side: str, column: str) -> list[float]:
    """By seed, where something is defined."""
    means = seed_means([row for row in images if row["method"] == method], side, column)
    return [mean for mean in means if not math.isnan(mean)]


def _range(means: Sequence[float]) -> str:
    return f"{np.mean(means):+.4f} ({min(means):+.4f} to {max(means):+.4f})"


KIND = Networks()

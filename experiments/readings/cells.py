"""The grid of readings: from rows to cells, each a full set of choices with its four numbers per seed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import product

import numpy as np

from looprop.running.parts import Row
from looprop.study.claims import published

from .measuring import EPSILONS, ZEROS

NUMBERS = ("L vs R", "AttnLRP L", "AttnLRP R", "IG")
"""Of table 1: L against R, AttnLRP of each against leave-one-out, integrated gradients against leave-one-out."""
NORMALISATIONS = ("none", "sum")
"""Maps as they are, or divided by their sums. Divided by sums of absolute values they have the r of maps as they
are."""
NAMES = ("L is Q (K^T V)", "L is (Q K^T) V")

Value = tuple[float, ...]
"""One number, for each seed."""


@dataclass(frozen=True)
class Choices:
    """Everything that a reader of the paper has to choose.

    reading: how the network is built and trained. loo_zero, ig_zero: what a removed pixel and the start of the line
    are.
    """

    reading: str
    loo_zero: str
    ig_zero: str
    normalisation: str
    epsilon: float
    names: str

    def __str__(self) -> str:
        zeros = self.loo_zero if self.loo_zero == self.ig_zero else f"LOO {self.loo_zero}, IG {self.ig_zero}"
        return f"{self.reading}; {zeros}; {self.normalisation}; epsilon {self.epsilon:g}; {self.names}"


@dataclass(frozen=True)
class Cell:
    """A set of choices and what it gives: values, four numbers of as many seeds each."""

    choices: Choices
    values: tuple[Value, Value, Value, Value]

    @property
    def means(self) -> tuple[float, ...]:
        """Over the seeds."""
        return tuple(float(np.mean(value)) for value in self.values)

    @property
    def distances(self) -> tuple[float, ...]:
        """How far each printed number lies outside the range over the seeds; 0 inside."""
        return tuple(
            max(0.0, min(value) - wanted, wanted - max(value))
            for value, wanted in zip(self.values, printed(), strict=True)
        )

    @property
    def distance(self) -> float:
        """The largest of the four; infinite where one of them is undefined."""
        worst = max(self.distances)
        return math.inf if any(math.isnan(v) for value in self.values for v in value) else worst


def printed() -> tuple[float, ...]:
    """The paper's four numbers."""
    attnlrp, ig = published("bilinear", "mnist", "attnlrp[epsilon=1e-6]"), published("bilinear", "mnist", "ig")
    return attnlrp["l-r"], attnlrp["loo-r L"], attnlrp["loo-r R"], ig["loo-r L"]


def cells_of(rows: Sequence[Row]) -> list[Cell]:
    """Every cell that the rows of a run have, nearest to the printed numbers first."""
    means = _seed_means(rows)
    readings = dict.fromkeys(row["reading"] for row in rows)
    found = []
    for chosen in product(readings, ZEROS, ZEROS, NORMALISATIONS, EPSILONS, NAMES):
        choices = Choices(*chosen)
        values = tuple(tuple(means.get(key, {}).values()) for key in _keys(choices))
        if all(values):
            found.append(Cell(choices, values))  # type: ignore[arg-type]
    return sorted(found, key=lambda cell: (cell.distance, cell.choices.epsilon, str(cell.choices)))


_Key = tuple[str, str, str, str, float, str]
"""reading, pair, LOO's zero, IG's zero, epsilon, normalisation"""


def _keys(choices: Choices) -> list[_Key]:
    c = choices
    normalised = "sum" if c.normalisation == "sum" else "raw"
    left, right = ("kv-first", "qk-first") if c.names == NAMES[0] else ("qk-first", "kv-first")
    return [
        (c.reading, "l-r", "", "", c.epsilon, normalised),
        (c.reading, left, c.loo_zero, "", c.epsilon, normalised),
        (c.reading, right, c.loo_zero, "", c.epsilon, normalised),
        (c.reading, "ig", c.loo_zero, c.ig_zero, 0.0, normalised),
    ]


def _seed_means(rows: Sequence[Row]) -> dict[_Key, dict[int, float]]:
    """Means over all images of a network, from those of its blocks."""
    sums: dict[_Key, dict[int, list[tuple[float, int]]]] = {}
    for row in rows:
        for normalised in ("raw", "sum"):
            key = (row["reading"], row["pair"], row["loo zero"], row["ig zero"], row["epsilon"], normalised)
            sums.setdefault(key, {}).setdefault(row["seed"], []).append((row[normalised], row["defined"]))
    return {
        key: {
            seed: sum(mean * count for mean, count in blocks) / max(1, sum(count for _, count in blocks))
            for seed, blocks in sorted(of_seeds.items())
        }
        for key, of_seeds in sums.items()
    }


def effects(cells: Sequence[Cell]) -> dict[str, tuple[float, ...]]:
    """How much each choice moves the numbers: the mean over all cells of how far they go when only this one changes."""
    found = {}
    for field in (f.name for f in fields(Choices)):
        groups: dict[tuple[object, ...], list[Cell]] = {}
        for cell in cells:
            others = tuple(getattr(cell.choices, f.name) for f in fields(Choices) if f.name != field)
            groups.setdefault(others, []).append(cell)
        spans = [
            [max(numbers) - min(numbers) for numbers in zip(*(cell.means for cell in group), strict=True)]
            for group in groups.values()
            if len(group) > 1
        ]
        if spans:
            found[field] = tuple(np.mean(spans, 0).tolist())
    return found

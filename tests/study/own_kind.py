"""An experiment of a kind of its own, written into a folder: what a user writes, in fewer than 150 lines."""

from pathlib import Path

CODE = '''
"""Squares: the area of each side."""

from functools import partial

from looprop.errors import DataError
from looprop.study import About, Grid, Job, JudgedClaim, Kind, Measured, Task

from .measuring import Side, measure


class Squares(Kind):
    case = Side

    def check(self, spec):
        for name, side in spec.cases.items():
            if side.length < 0:
                raise DataError(f"case {name!r}: length must be >= 0, got {side.length}")

    def job(self, spec, options):
        tasks = [Task(name, side) for name, side in spec.cases.items()]
        about = About("squares", "sides", "all sides", subset=False, examples=len(tasks))
        prepare = lambda folder, *, progress: partial(measure, spec)
        return Job(f"{spec.name}: all sides", tasks, prepare, {"spec": spec.to_dict()}, about)

    def tables(self, run):
        return [Grid("Areas", ["side", "area"], [[row["example"], Measured(row["area"])] for row in run.rows])]

    def claims(self, run):
        return [JudgedClaim("areas are not negative", "", "", all(row["area"] >= 0 for row in run.rows))]


KIND = Squares()
'''
MEASURING = '''
"""One side."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Side:
    length: float


def measure(spec, task):
    area = float(np.square(task.item.length))
    return [{"example": task.id, "method": method, "area": area, "error": ""} for method in spec.methods]
'''
SPEC = "{name: own, kind: squares, question: areas, methods: [loo], cases: {short: {length: 2}, long: {length: 7}}}"


def write_own_kind(folder: Path, name: str = "squares") -> Path:
    """The folder of the experiment, and a file that is there as soon as its code has run."""
    place = folder / name
    place.mkdir(parents=True)
    ran = f"open({str(folder / 'ran')!r}, 'w').close()\n"
    (place / "__init__.py").write_text(CODE + ran, encoding="utf-8")
    (place / "measuring.py").write_text(MEASURING, encoding="utf-8")
    (place / "experiment.yaml").write_text(SPEC.replace("squares", name), encoding="utf-8")
    return place

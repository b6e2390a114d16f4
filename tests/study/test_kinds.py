"""A kind of experiment is one file: written into a folder of kinds, it runs, goes on, is reported, and is refused."""

import sys
from pathlib import Path

import pytest

from looprop.errors import DataError, UnknownNameError
from looprop.study import kinds, parse_spec, read_run, reproduce, write_report
from looprop.study.kinds import get_kind, kind_names

SQUARES = """
from dataclasses import dataclass
from functools import partial

from looprop.errors import DataError
from looprop.evaluation.example import Task
from looprop.study.claims import JudgedClaim
from looprop.study.job import About, Job
from looprop.study.kind import Kind
from looprop.study.report.grids import Grid, Measured


@dataclass(frozen=True)
class Side:
    length: float


def measure(spec, task):
    return [
        {"example": task.id, "method": method, "area": task.item.length**2, "error": ""} for method in spec.methods
    ]


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
"""
OWN = "{name: own, kind: squares, question: areas, methods: [loo], cases: {short: {length: 2}, long: {length: 7}}}"


@pytest.fixture
def squares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kinds").mkdir()
    (tmp_path / "kinds" / "squares.py").write_text(SQUARES, encoding="utf-8")
    monkeypatch.setattr(kinds, "__path__", [*kinds.__path__, str(tmp_path / "kinds")])
    monkeypatch.delitem(sys.modules, "looprop.study.kinds.squares", raising=False)


def test_a_new_kind_is_one_file(squares: None, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN, encoding="utf-8")
    run = reproduce(tmp_path / "own.yaml", out=tmp_path / "run", progress=False)
    assert [(row["example"], row["area"]) for row in run.rows] == [("short", 4.0), ("long", 49.0)]
    again = reproduce(tmp_path / "own.yaml", out=tmp_path / "run", progress=False)
    assert again.rows == read_run(tmp_path / "run").rows == run.rows
    written = {path.name for path in write_report(tmp_path / "run")}
    assert written == {"report.html", "report.md", "tables.tex", "summary.csv"}
    report = (tmp_path / "run" / "report.md").read_text(encoding="utf-8")
    assert "| long | 49.00 |" in report
    assert "| holds | areas are not negative |" in report


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("length: 7", "length: -1", "case 'long': length must be >= 0, got -1"),
        ("length: 7", "width: 7", "unknown field in x: cases.long 'width'"),
        ("length: 7", "", "x: cases.long: field 'length' is missing"),
        ("cases", "data", "unknown field in x: data.short 'length'"),
        (", cases: {short: {length: 2}, long: {length: 7}}", "", "of kind 'squares' runs on cases and nothing else"),
    ],
)
def test_a_kind_names_what_is_wrong_with_a_specification(squares: None, old: str, new: str, message: str) -> None:
    assert old in OWN
    with pytest.raises((DataError, UnknownNameError), match=message):
        parse_spec(OWN.replace(old, new), where="x")


def test_every_file_is_a_kind() -> None:
    assert {type(get_kind(name)).__name__.lower() for name in kind_names()} == set(kind_names())
    with pytest.raises(UnknownNameError, match="unknown kind of experiment 'toy'; did you mean 'toys'"):
        get_kind("toy")

"""Saved results: files of looprop 0.1 are read and written as they were, every class has every format of its views, and
a new format is one function.
"""

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow.parquet as pq
import pytest

from looprop.auditing import Audit
from looprop.errors import DataError, InputError
from looprop.evaluation import Evaluation, ModelEvaluations
from looprop.result import (
    WRITERS,
    Explanation,
    ExplanationMatrix,
    Explanations,
    Interactions,
    Result,
    Writer,
    endings,
    schema_of,
)
from looprop.result.codec import Matrix, from_data, to_data
from looprop.result.writers import FolderResult

SAVED = Path(__file__).parent / "data" / "saved-by-0.1"
SCHEMAS = Path(__file__).parents[1] / "docs" / "schema"
FILES: dict[str, type[Any]] = {
    "audit.json": Audit,
    "explanation.json": Explanation,
    "explanations.json": Explanations,
    "explanation-matrix.json": ExplanationMatrix,
    "interactions.json": Interactions,
    "evaluation": Evaluation,
    "models": ModelEvaluations,
}
SEVERAL = (".json", ".csv", ".parquet", ".html")
PICTURES = (".png", ".svg", ".pdf")


@pytest.fixture(params=FILES)
def saved(request: pytest.FixtureRequest) -> Any:
    return FILES[request.param].load(SAVED / request.param)


def same_files(one: Path, other: Path) -> bool:
    """Do two files, or two folders, hold the same data?"""
    if one.is_dir():
        names = sorted(path.name for path in one.iterdir())
        assert names == sorted(path.name for path in other.iterdir())
        return all(same_files(one / name, other / name) for name in names)
    if one.suffix == ".parquet":
        return repr(pq.read_table(one).to_pylist()) == repr(pq.read_table(other).to_pylist())
    return bool(json.loads(one.read_text()) == json.loads(other.read_text()))


@pytest.mark.parametrize("name", FILES)
def test_what_0_1_saved_is_read_and_saved_again_equal(name: str, tmp_path: Path) -> None:
    found = FILES[name].load(SAVED / name)
    assert type(found) is FILES[name]
    assert same_files(SAVED / name, found.save(tmp_path / name))
    assert repr(found)


def test_every_result_class_has_its_saved_file() -> None:
    def below(kind: type) -> set[type]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    own = {kind for kind in below(Result) - {Result, FolderResult} if kind.__module__.startswith("looprop.")}
    assert own == set(FILES.values())


@pytest.mark.parametrize("kind", [Explanation, Interactions, Evaluation])
def test_the_published_schema_is_that_of_the_codec(kind: type[Result]) -> None:
    name = kind.SCHEMA.removeprefix("looprop.")
    published = without_words(json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8")))
    if kind is not Evaluation:
        assert published == schema_of(kind)
        return
    # What is computed anew when an evaluation is read is described there too, and some entries more strictly.
    made = schema_of(kind)
    assert set(published["properties"]) == {*made["properties"], *kind.DERIVED}
    for entry, form in made["properties"].items():
        assert form.items() <= published["properties"][entry].items() or entry == "confidence"


def without_words(schema: Any) -> Any:
    """A schema without its titles and descriptions."""
    if isinstance(schema, list):
        return [without_words(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    words = {"$schema", "title", "description"}
    return {k: without_words(v) for k, v in schema.items() if not (k in words and isinstance(v, str))}


def test_every_class_has_every_format_of_its_views() -> None:
    with_figure = {Explanation, Explanations}
    for kind in FILES.values():
        assert endings(kind) == (SEVERAL + PICTURES if kind in with_figure else SEVERAL)


def test_every_format_is_written(saved: Result, tmp_path: Path) -> None:
    begins = {".html": b"<!DOCTYPE html>", ".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF", ".json": b"{"}
    for ending in set(endings(type(saved))) & begins.keys():
        if isinstance(saved, ExplanationMatrix) and ending == ".html" and "prompt" not in saved.explanation.details:
            continue
        written = saved.save(tmp_path / f"a{ending}").read_bytes()
        assert written.startswith(begins[ending])
        assert written == saved.save(tmp_path / f"b{ending}").read_bytes()


def test_csv_parquet_and_pandas_hold_the_records(saved: Result, tmp_path: Path) -> None:
    records = saved.records()
    columns = list(dict.fromkeys(str(name) for row in records for name in row))
    assert list(map(str, saved.to_pandas().columns)) == columns
    assert len(saved.to_pandas()) == len(records) > 0
    table = pq.read_table(saved.save(tmp_path / "a.parquet")).to_pylist()
    wanted = [dict.fromkeys(columns) | {str(name): value for name, value in row.items()} for row in records]
    assert repr(table) == repr(wanted)
    with saved.save(tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [list(line) for line in lines] == [columns] * len(records)
    for line, row in zip(lines, wanted, strict=True):
        for name, value in row.items():
            unknown = value is None or value != value
            assert line[name] == ("" if unknown else str(value))


def test_a_table_of_texts_that_are_no_unicode(tmp_path: Path) -> None:
    e = Explanation(["a\ud800", "b"], np.array([1.0, np.nan]), "loo", 1.0, 1, "good", text="a\ud800b")
    assert pq.read_table(e.save(tmp_path / "a.parquet"))["feature"].to_pylist() == ["a\\ud800", "b"]
    assert e.save(tmp_path / "a.csv").read_text().splitlines()[1:] == ["1,a\\ud800,1.0,,,False,", "2,b,,,,False,"]


def test_a_new_format_is_one_function(saved: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def text(rows: Any) -> bytes:
        return "\n".join(" ".join(map(str, row.values())) for row in rows).encode("utf-8", "backslashreplace")

    monkeypatch.setitem(WRITERS, ".txt", Writer("records", text))
    assert ".txt" in endings(type(saved))
    lines = saved.save(tmp_path / "a.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) >= len(saved.records())


def test_a_wrong_ending_lists_the_right_ones(tmp_path: Path) -> None:
    found = Audit.load(SAVED / "audit.json")
    with pytest.raises(InputError, match=r"must end in \.json, \.csv, \.parquet, \.html, got"):
        found.save(tmp_path / "audit.doc")


# ----- the codec


@dataclass(frozen=True)
class Part:
    size: int
    kind: Literal["round", "square"] = "round"


@dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...]
    rows: Matrix
    share: float
    name: str = ""
    log: object = None

    NAMES: ClassVar[dict[str, str]] = {"name": "title"}
    APART: ClassVar[tuple[str, ...]] = ("log",)


WHOLE = Whole((Part(1), Part(2, "square")), np.array([[1.0, np.nan]]), float("nan"))
DATA = {
    "parts": [{"size": 1, "kind": "round"}, {"size": 2, "kind": "square"}],
    "rows": [[1.0, None]],
    "share": None,
    "title": "",
}


def test_there_and_back() -> None:
    assert to_data(WHOLE) == DATA
    again = from_data(Whole, json.loads(json.dumps(DATA)), log="kept")
    assert again.parts == WHOLE.parts
    np.testing.assert_array_equal(again.rows, WHOLE.rows)
    assert np.isnan(again.share)
    assert again.log == "kept"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d | {"parts": [{"size": 1}, {"size": "2"}]}, r"parts\[1\]\.size must be a whole number, got '2'"),
        (lambda d: d | {"parts": [{"size": 1, "kind": "oval"}]}, r"parts\[0\]\.kind must be 'round' or 'square'"),
        (lambda d: d | {"parts": [{}]}, "missing in the part: 'size'"),
        (lambda d: d | {"parts": [3]}, "the part must be an object, got int"),
        (lambda d: d | {"rows": [[1.0], [1.0, 2.0]]}, "rows of a matrix must have the same length"),
        (lambda d: d | {"share": 10**400}, "share must be a number, got 1000"),
        (lambda d: d | {"share": True}, "share must be a number, got True"),
        (lambda d: d | {"name": ""}, "unknown in the whole: 'name'; known: parts, rows, share, title"),
        (lambda d: {"share": 1.0}, "missing in the whole: 'parts', 'rows'"),
    ],
)
def test_what_does_not_fit_is_named(change: Callable[[dict[str, Any]], dict[str, Any]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_data(Whole, change(dict(DATA)))

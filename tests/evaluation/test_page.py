"""What is shown of an evaluation: one table, for pages, notebooks and terminals; and the files it is saved as."""

import io
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import looprop
from evaluation.tiny import TEXTS
from looprop.display import Cell, two_decimals
from looprop.display.terminal import data_table
from looprop.errors import DataError, InputError
from looprop.evaluation import Evaluation, gallery_page, measured_explanations
from looprop.inputs import Example, make_dataset
from looprop.workbench import Workbench

METRICS = ("loo-r", "morf")


def evaluation(rows: dict[str, list[tuple[float, float]]], **more: Any) -> Evaluation:
    """Methods with the values of both metrics on every example; NaN in both is a failure."""
    made = []
    for i in range(len(next(iter(rows.values())))):
        for method, values in rows.items():
            error = "RuntimeError: no" if all(map(math.isnan, values[i])) else ""
            own = {"example": str(i), "method": method, "error": error, "note": "", "flipped": None}
            own |= {"cost": 3.0, "seconds": 0.25, **dict(zip(METRICS, values[i], strict=True))}
            made.append(own)
    return Evaluation(made, METRICS, "two <examples>", **more)


NAN = math.nan
MIXED = evaluation(
    {
        "worse": [(0.1, 2.0), (0.3, 2.0)],
        "loo": [(1.0, 1.5), (1.0, 1.5)],
        "undefined": [(NAN, 1.0), (NAN, 1.0)],
        "better": [(0.5, 3.0), (0.5, 3.0)],
        "failing": [(0.4, NAN), (NAN, NAN)],
    },
    about={"model": "tiny & small"},
)


def test_methods_by_agreement_undefined_ones_last() -> None:
    assert [found.method for found in MIXED.by_agreement] == ["loo", "better", "failing", "worse", "undefined"]
    assert MIXED.methods == ["worse", "loo", "undefined", "better", "failing"], "the summary keeps its order"
    down = Evaluation(MIXED.rows, ("morf", "loo-r"))
    assert [found.method for found in down.by_agreement] == ["undefined", "loo", "worse", "better", "failing"]
    assert [found.method for found in Evaluation(MIXED.rows, ()).by_agreement] == MIXED.methods


def test_what_failed_is_known() -> None:
    assert MIXED.failed == {"failing": 1}
    assert MIXED.first_error == "RuntimeError: no"
    MIXED.check()
    whole = evaluation({"worse": [(0.1, 2.0)]})
    assert (whole.failed, whole.first_error) == ({}, "")
    with pytest.raises(InputError, match="no method could be measured on any example; the first error: RuntimeError"):
        evaluation({"failing": [(NAN, NAN)]}).check()


def test_the_table_has_a_column_per_metric_and_marks_the_best_of_each() -> None:
    columns, rows = MIXED.table
    assert [column.name for column in columns] == ["method", "r to LOO, all", "MoRF", "ms", "cost", "failed"]
    assert [column.bars for column in columns] == [False, True, False, False, False, False]
    best = {
        column.name: [row[0] for row in rows if isinstance(row[j], Cell) and row[j].best]  # type: ignore[union-attr]
        for j, column in enumerate(columns)
    }
    assert best["r to LOO, all"] == ["better"], "leave-one-out has no part in its own r"
    assert best["MoRF"] == ["undefined"], "lower is better"
    by_name = {str(row[0]): row for row in rows}
    assert by_name["failing"][-1] == Cell(1, text="1")
    r = by_name["failing"][1]
    assert isinstance(r, Cell)
    assert r.text == "0.40"
    assert r.tip.endswith("n = 1, undefined on 1")
    assert by_name["worse"][3:5] == [Cell(250.0, text="250"), Cell(3.0, text="3.00")]
    assert [column.under for column in columns] == [
        "",
        *["higher is better", "lower is better"],
        *["lower is better"] * 2,
        "",
    ]
    names = [column.name for column in evaluation({"worse": [(0.1, 2.0)]}).table[0]]
    assert "failed" not in names


def cells(html: str) -> list[str]:
    """What stands in the cells of a table, bars and what is written small left out."""
    found = re.findall(r"<t[dh](?: [^>]*)?>(.*?)</t[dh]>", re.sub(r"<small>.*?</small>", "", html))
    return [text for text in found if text and not text.startswith("<span")]


def test_page_notebook_and_terminal_show_the_same_table() -> None:
    notebook = MIXED._repr_html_()
    file = io.StringIO()
    Console(file=file, width=120, color_system=None).print(data_table(*MIXED.table))
    words = [re.split(r"\s{2,}", line.strip()) for line in file.getvalue().splitlines()]
    assert cells(notebook) == [word for line in words for word in line]
    assert notebook.count("<script") == 1


def test_saved_as_a_page(tmp_path: Path) -> None:
    place = MIXED.save(tmp_path / "x.html")
    assert place.is_file()
    page = place.read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "<h1>two &lt;examples&gt;</h1>" in page
    assert "tiny &amp; small" in page
    assert cells(page) == cells(MIXED._repr_html_())
    assert [path.name for path in tmp_path.iterdir()] == ["x.html"]


def test_saved_as_json_or_as_a_folder(tmp_path: Path) -> None:
    assert json.loads(MIXED.save(tmp_path / "x.JSON").read_text(encoding="ascii")) == MIXED.to_dict()
    with pytest.raises(DataError, match="is one file"):
        Evaluation.load(tmp_path / "x.JSON")
    folder = MIXED.save(tmp_path / "run-1.5")
    assert sorted(path.name for path in folder.iterdir()) == ["evaluation.json", "rows.parquet"]
    assert Evaluation.load(folder).to_dict() == MIXED.to_dict()


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no folder"):
        MIXED.save(tmp_path / "nowhere" / "x.html")


def test_the_identity_of_a_run_is_no_subtitle(tmp_path: Path) -> None:
    run = evaluation({"worse": [(0.1, 2.0)]}, about={"model": {"weights": "abc123"}})
    assert "abc123" not in run.save(tmp_path / "x.html").read_text(encoding="utf-8")


def test_numbers_of_the_table_have_two_decimals(tiny: Workbench) -> None:
    found = looprop.evaluate(tiny, TEXTS[:2], ["cp-lrp"], ["loo-r"])
    assert cells(found._repr_html_())[:5] == ["method", "r to LOO, all", "ms", "cost", "cp-lrp"]
    assert cells(found._repr_html_())[5] == two_decimals(found["cp-lrp"].metrics["loo-r"].mean)


def test_the_gallery_shows_every_text_under_every_method(tiny: Workbench) -> None:
    data = make_dataset("own", "all", [Example(f"kind-{i}", text) for i, text in enumerate(TEXTS[:2])])
    found = looprop.evaluate(tiny, data, ["loo", "cp-lrp"])
    for text, explanations in zip(TEXTS, measured_explanations(tiny, data, found), strict=False):
        assert [e.method for e in explanations] == ["loo", "cp-lrp"]
        assert {e.text for e in explanations} == {text}
    page = gallery_page(tiny, data, found)
    assert page.count('<div class="method">') == 4
    assert page.count('<details class="example') == 2

"""The tables of runs in docs/ are those of results/."""

import json
from pathlib import Path

from budget_tables import with_budgets
from results_tables import ROOT, filled, pages


def test_the_tables_are_what_was_measured() -> None:
    texts = {page.name: page.read_text(encoding="utf-8") for page in pages()}
    wrong = [name for name, text in texts.items() if filled(text, ROOT / "results") != text]
    assert not wrong, "the tables of these pages are not those of results/: run `make readme`"


def test_a_table_is_written_once_and_again(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    entries = [
        {"method": "loo", "cost": 25, "loo-r": 1, "loo-r-low": 1, "loo-r-high": 1},
        {"method": "ig", "cost": 61.04, "loo-r": None},
    ]
    (tmp_path / "mine" / "summary.json").write_text(
        json.dumps({"title": "mine: all", "summary": entries}), encoding="utf-8"
    )
    page = (
        "before\n<!-- table: mine: loo-r -->\nold\n<!-- end of table -->\n<!-- table: none: loo-r -->\n<!-- end of "
        "table -->\nafter\n"
    )
    once = filled(page, tmp_path)
    assert "| `loo` | 25.0 | 1.000 (1.000 to 1.000) |\n| `ig` | 61.0 | – |\n" in once
    assert "old" not in once
    assert "The run `none` is not kept" in once
    assert once.startswith("before\n")
    assert once.endswith("after\n")
    assert filled(once, tmp_path) == once


def test_both_references_stand_in_one_cell(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    entries = [
        {"method": "cp-lrp", "cost": 3, "loo-r-no-special": 0.5, "shapley-r-no-special": -0.25},
        {"method": "lrp[cp=1]", "cost": 3, "loo-r-no-special": 0.5, "shapley-r-no-special": 0.5},
        {"method": "x", "cost": None, "loo-r-no-special": None, "shapley-r-no-special": None},
    ]
    (tmp_path / "one" / "summary.json").write_text(
        json.dumps({"title": "truths: mine", "summary": entries}), encoding="utf-8"
    )
    once = filled("<!-- truths: one, none -->\nold\n<!-- end of table -->\n", tmp_path)
    assert "| method | cost | [mine](../results/one/report.md) |" in once
    assert "| `cp-lrp` | 3 | 0.50 / −0.25 |\n| `x` | – | – / – |\n" in once
    assert "lrp[cp=1]" not in once
    assert filled(once, tmp_path) == once
    assert "None of these runs is kept" in filled("<!-- truths: none -->\n<!-- end of table -->\n", tmp_path)


def test_what_was_asked_for_and_what_was_spent_stand_beside_r(tmp_path: Path) -> None:
    rows = [
        {"method": "loo", "passes": None, "cost": 25.04, "r": 0.7, "low": 0.6, "high": 0.8, "examples": 3},
        {"method": "lime", "passes": 10, "cost": 9.26, "r": -0.1, "low": -0.2, "high": 0.04, "examples": 3},
    ]
    (tmp_path / "fast_shapley_mine.json").write_text(json.dumps({"summary": rows}), encoding="utf-8")
    page = "<!-- fast shapley: mine -->\nold\n<!-- end of table -->\n"
    once = with_budgets(page, tmp_path, tmp_path)
    assert "| method | asked for | mine, 3 texts |" in once
    lime, loo = (
        once.index("| `lime` | 10 passes | -0.100 (-0.20 to 0.04) at 9.3 |"),
        once.index("| `loo` | its own price"),
    )
    assert lime < loo
    assert "old" not in once
    assert with_budgets(once, tmp_path, tmp_path) == once
    missing = with_budgets("<!-- context: none -->\n<!-- end of table -->\n", tmp_path, tmp_path)
    assert "The run `none` is not kept" in missing

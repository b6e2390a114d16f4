"""What was measured of `fast-shapley` on texts that chose nothing (benchmarks/results/fast_shapley_*.json).

Aimed at and not reached, so not asserted: 0.80 at 10 passes on MPNet, where both ends exact have 0.79 at 27 passes.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

MEASURED = Path(__file__).parents[1] / "benchmarks" / "results"
TEXTS = {"sst2": 200, "mpnet": 60, "prompts": 30}
LARGEST_ERROR = {"sst2": 0.02, "mpnet": 0.1, "prompts": 0.1}


def measured(bench: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((MEASURED / f"fast_shapley_{bench}.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("bench", TEXTS)
def test_all_texts_were_measured_by_references_that_are_known_well_enough(bench: str) -> None:
    found = measured(bench)
    assert len({row["example"] for row in found["rows"]}) == found["references"] == TEXTS[bench]
    assert found["largest_error"] < LARGEST_ERROR[bench]
    for row in found["summary"]:
        own = [r for r in found["rows"] if (r["method"], r["passes"]) == (row["method"], row["passes"])]
        assert row["r"] == pytest.approx(np.nanmean([r["r"] for r in own]))


@pytest.mark.parametrize(("bench", "bar"), [("sst2", 0.95), ("prompts", 0.85), ("mpnet", 0.75)])
def test_ten_passes_come_near_and_are_ahead_of_samplers(bench: str, bar: float) -> None:
    r = {(row["method"], row["passes"]): row["r"] for row in measured(bench)["summary"]}
    assert r["fast-shapley", 10] >= bar
    # Permutations were given more passes than were asked for: a pair of them cannot be had for less.
    for rival in ("permutations", "kernel-shap", "lime", "partition"):
        assert r["fast-shapley", 10] > r[rival, 10]
    costs = [row["cost"] for row in measured(bench)["rows"] if (row["method"], row["passes"]) == ("fast-shapley", 10)]
    assert max(costs) <= 10


def test_what_alone_costs_is_what_was_measured() -> None:
    rows = json.loads((MEASURED / "alone_cost.json").read_text(encoding="utf-8"))["rows"]
    embedded, bert = (row["cpu"] for row in rows if row["tokens"] == 128)
    page = Path(__file__).parents[1] / "docs" / "fast-shapley.md"
    said = page.read_text(encoding="utf-8").partition('**What "alone" costs.**')[2]
    assert f"{embedded:.2f} (embedded model) and {bert:.2f} (BERT-base)" in said
    assert ("missed" in said) == (max(embedded, bert) > 4)

"""What docs/trust.md says of `check=`: measured on the committed runs, and within the bars."""

import json

import pytest
from benchmarks.common import RESULTS
from benchmarks.trust import NAMES, failures, measure

MEASURED = json.loads((RESULTS / "trust.json").read_text(encoding="utf-8"))["rows"]
QUICK = ("remedy-mpnet", "remedy-smollm2")


def test_the_bars_are_met() -> None:
    assert {row["run"] for row in MEASURED} == set(NAMES)
    assert failures(MEASURED) == []
    worse = [{**row, "coverage": 0.5, "mean error": 0.2} for row in MEASURED]
    assert len(failures(worse)) == len(NAMES) + 1


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in NAMES])
def test_the_measurement_is_that_of_the_committed_parts(name: str) -> None:
    (found,) = measure(name, counts=[8], halves=["reported"])
    (stated,) = [row for row in MEASURED if row["run"] == name and row["values"] == 8 and row["half"] == "reported"]
    assert found["checks"] == stated["checks"] > 100
    for number in ("r", "mean error", "coverage", "width"):
        # Another processor rounds differently, and a draw may fall on the other side of a bound.
        assert found[number] == pytest.approx(stated[number], abs=0.01), "run `make readme`: the runs have changed"
    assert failures([found]) == []

"""The figures of docs/how-to/explorer.md are those of the committed measurement, and it met its bars."""

import json

import pytest
from benchmarks import explorer
from benchmarks.common import RESULTS


def test_the_how_to_says_what_was_measured() -> None:
    result = json.loads((RESULTS / "explorer.json").read_text(encoding="utf-8"))
    assert explorer.passage(result) in explorer.PAGE.read_text(encoding="utf-8")
    assert not result["quick"]
    assert result["met"] == explorer.verdicts(result)
    assert all(result["met"].values())


@pytest.mark.parametrize("name", ["first_paint", "strike_out", "stop"])
def test_a_bar_that_is_missed_is_said(name: str) -> None:
    result = json.loads((RESULTS / "explorer.json").read_text(encoding="utf-8"))
    slow = {**result, name: {"median": 9.0, "slowest": 9.0, "count": 1}}
    assert not explorer.verdicts(slow)[name]

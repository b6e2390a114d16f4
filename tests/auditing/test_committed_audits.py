"""The audits kept under results/: what the documentation says of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from looprop.auditing import Audit

RESULTS = Path(__file__).parents[2] / "results" / "audit"


def kept(name: str) -> dict[str, Any]:
    written: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return written


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_a_kept_audit_is_read_as_it_was_written(path: Path) -> None:
    written = json.loads(path.read_text(encoding="utf-8"))
    assert Audit.load(path).to_dict() == written


@pytest.mark.parametrize("name", ["product", "mnist", "embedded", "embedded-default"])
def test_methods_that_only_see_the_function_agree_under_every_rewrite(name: str) -> None:
    written = kept(name)
    assert written["about"]["computed_in"] == "float64"
    exact = [
        row
        for row in written["rows"]
        if row["method"].partition("[")[0] in ("loo", "ig", "looprop") and not row["refused"]
    ]
    assert {row["method"].partition("[")[0] for row in exact} >= {"loo", "ig"}
    assert max(row["change"] for row in exact) < 1e-6


def test_looprop_is_invariant_whatever_carries_its_first_order() -> None:
    rows = [row for row in kept("looprop-backwards")["rows"] if row["method"].startswith("looprop")]
    assert len({row["method"] for row in rows}) == 7
    assert max(row["change"] for row in rows) < 1e-12


def test_the_two_groupings_on_mnist_differ_for_lrp_only() -> None:
    rows = {row["method"]: row for row in kept("mnist")["rows"] if row["rewrite"] == "reassociated"}
    assert rows["attnlrp"]["r"] < 0.95
    assert rows["attnlrp[bilinear=canonical]"]["r"] > 1 - 1e-9

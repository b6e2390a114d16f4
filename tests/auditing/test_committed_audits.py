"""The audits kept under results/ are read as they were written."""

import json
from pathlib import Path

import pytest

from looprop.auditing import Audit

RESULTS = Path(__file__).parents[2] / "results" / "audit"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_a_kept_audit_is_read_as_it_was_written(path: Path) -> None:
    written = json.loads(path.read_text(encoding="utf-8"))
    assert Audit.load(path).to_dict() == written

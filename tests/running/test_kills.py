"""A run may be killed at any moment and at every point where it writes: it goes on as if nothing had been."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")

TESTS = Path(__file__).parents[1]
# Forked from a small process of its own, which has neither torch nor threads.
POINTS = """
import sys
from pathlib import Path
from running.kills import PRIMITIVES, points
found = points(Path(sys.argv[1]))
assert {name for name, _, _ in found} == set(PRIMITIVES), found
assert "torch" not in sys.modules
"""


def run(*command: str) -> str:
    done = subprocess.run([sys.executable, *command], cwd=TESTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_way_to_write_is_a_point_to_be_killed_at(tmp_path: Path) -> None:
    run("-c", POINTS, str(tmp_path))


def test_sixty_kills() -> None:
    assert "60 kills" in run("-m", "running.kills", "60", "1")

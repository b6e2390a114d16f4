"""The command may be killed at any moment: what was written stays, and the same command goes on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
def test_a_command_killed_at_ten_moments_equals_an_undisturbed_one(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "study.command_kills", "10", "0", str(tmp_path)]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert "equal bit for bit" in done.stdout

"""The how-tos are true: the one file that each of them shows, put where it says, passes every contract test."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACE = re.compile(r"`src/(looprop/[\w/]+\.py)`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# One screen.
LINES = 48

HOW_TOS = [
    ("add-a-method", "tests/methods/test_contract.py", "LOOPROP_CONTRACT_METHODS", "saliency"),
    ("add-a-metric", "tests/metrics/test_contract.py", "LOOPROP_CONTRACT_METRICS", "loo-top"),
    ("add-a-rule", "tests/propagation/test_rule_contract.py", "LOOPROP_CONTRACT_OPERATIONS", "glu"),
]


def shown(page: str) -> tuple[str, str]:
    """The place of the one file, and its code."""
    ((place, code),) = PLACE.findall((ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8"))
    return place, code


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A package that can be written to; what is large and only read is shared."""
    package = ROOT / "src" / "looprop"
    shutil.copytree(package, tmp_path / "looprop", ignore=shutil.ignore_patterns("__pycache__", "sentiment"))
    (tmp_path / "looprop" / "assets" / "sentiment").symlink_to(package / "assets" / "sentiment")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(("page", "tests", "variable", "name"), HOW_TOS, ids=[page for page, *_ in HOW_TOS])
def test_the_one_file_passes_every_contract_test(page: str, tests: str, variable: str, name: str, copy: Path) -> None:
    place, code = shown(page)
    assert not (copy / place).exists()
    (copy / place).write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests]
    paths = os.pathsep.join([str(copy), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths, variable: name}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
    assert re.search(r"\d+ passed", result.stdout)


@pytest.mark.parametrize("page", [page for page, *_ in HOW_TOS])
def test_a_how_to_is_one_screen(page: str) -> None:
    lines = (ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LINES

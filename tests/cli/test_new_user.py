"""A new user's path, in an environment of its own: install, explain, pipe the JSON, open the page."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from browser import Browser

ROOT = Path(__file__).parents[2]
TEXT = "This is not a bad film at all."
# What pip says when there is no index to install from: the network is not what is tested here.
NO_INDEX = (
    "Could not find a version",
    "No matching distribution",
    "Connection",
    "Temporary failure",
    "Network is unreachable",
    "timed out",
)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the commands of a clean environment into which looprop was installed as README says."""
    folder = tmp_path_factory.mktemp("new-user") / "venv"
    venv.create(folder, with_pip=True)
    tools = folder / ("Scripts" if os.name == "nt" else "bin")
    install = [str(tools / "python"), "-m", "pip", "install", "--quiet", "--no-compile", "-c", "constraints.txt", "."]
    done = subprocess.run(install, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode and any(sign in done.stderr for sign in NO_INDEX):
        pytest.skip(f"no package index: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return tools


def clean() -> dict[str, str]:
    """The environment of somebody who has never heard of this source tree, and is offline."""
    return {**{k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "LOOPROP"))}, "HF_HUB_OFFLINE": "1"}


@pytest.mark.slow
def test_explain(tools: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [tools / "looprop", "explain", TEXT], cwd=tmp_path, env=clean(), capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert "target positive" in run.stdout
    assert "bad[" in run.stdout


@pytest.mark.slow
def test_json_goes_through_a_pipe(tools: Path, tmp_path: Path) -> None:
    line = f'"{tools}/looprop" explain "{TEXT}" --json | "{tools}/python" -m json.tool'
    run = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], cwd=tmp_path, env=clean(), capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert '"schema": "looprop.explanation"' in run.stdout


@pytest.mark.slow
@pytest.mark.browser
def test_the_page_opens(tools: Path, tmp_path: Path, browser: Browser) -> None:
    command = [tools / "looprop", "explain", TEXT, "-m", "looprop", "-m", "cp-lrp", "--html", "page.html"]
    run = subprocess.run(command, cwd=tmp_path, env=clean(), capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "wrote page.html\n")
    browser.open(tmp_path / "page.html")
    assert browser.errors == []
    assert browser.evaluate("document.querySelectorAll('.method').length") == 3
    assert TEXT.split()[3] in browser.evaluate("document.querySelector('.strip').textContent")


@pytest.mark.slow
def test_the_installed_package_is_not_this_source_tree(tools: Path, tmp_path: Path) -> None:
    script = "import looprop; print(looprop.__file__)"
    run = subprocess.run(
        [tools / "python", "-c", script], cwd=tmp_path, env=clean(), capture_output=True, text=True, check=True
    )
    assert not Path(run.stdout.strip()).is_relative_to(ROOT)
    assert sys.prefix not in run.stdout

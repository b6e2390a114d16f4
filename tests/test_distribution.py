"""The wheel and the source distribution: they hold the whole package and nothing else, and the README's five lines run.

The wheel is made of the source distribution, as `python -m build` does it. It is installed into an environment of its
own that finds torch and the others where this one has them, so that no index is needed. That everything can be had from
an index, too, is what cli/test_new_user.py shows.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from email.parser import HeaderParser
from importlib.metadata import distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "looprop"
LEFT_OUT = shutil.ignore_patterns(
    ".*", "__pycache__", "*.egg-info", "build", "dist", "results", "runs", "benchmarks", "docs"
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the source distribution, made from a copy of what is needed for them."""
    # By its name as a distribution: a folder called build is found as a module, too.
    if not any(distribution.name == "build" for distribution in distributions()):
        pytest.skip("`python -m build` needs the package build, of looprop[dev]")
    copy = tmp_path_factory.mktemp("made") / "copy"
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(copy.parent / "dist")]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return copy.parent / "dist"


def wheel(made: Path) -> Path:
    (found,) = made.glob("*.whl")
    return found


def test_the_wheel_holds_the_package_and_nothing_else(made: Path) -> None:
    with zipfile.ZipFile(wheel(made)) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = {path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert names == {path.relative_to(PACKAGE.parent).as_posix() for path in files}
    endings = {Path(name).suffix for name in names}
    assert endings >= {".py", ".yaml", ".css", ".js", ".safetensors", ".jsonl", ".typed"}


def test_the_wheel_says_what_it_is(made: Path) -> None:
    with zipfile.ZipFile(wheel(made)) as archive:
        (place,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        said = HeaderParser().parsestr(archive.read(place).decode("utf-8"))
    assert (said["Name"], said["Requires-Python"], said["License-Expression"]) == ("looprop", ">=3.11", "MIT")
    assert {"docs", "pandas", "ray", "serve"} <= set(said.get_all("Provides-Extra", []))
    assert said.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_source_distribution_holds_what_the_wheel_is_made_of(made: Path) -> None:
    (place,) = made.glob("*.tar.gz")
    with tarfile.open(place) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= {"LICENSE", "README.md", "pyproject.toml", "src/looprop/assets/sentiment/model.safetensors"}
    assert names >= {f"experiments/{name}" for name in ("README.md", "truths/__init__.py", "truths/experiment.yaml")}
    assert not {name for name in names if name.endswith(".pyc")}
    assert not {name for name in names if name.startswith(("tests", "results", "website", "benchmarks"))}


@pytest.fixture(scope="module")
def tools(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an empty environment into which the wheel was installed."""
    folder = tmp_path_factory.mktemp("empty") / "venv"
    venv.create(folder)
    tools = folder / ("Scripts" if os.name == "nt" else "bin")
    pip = [sys.executable, "-m", "pip", "--python", str(tools / "python"), "install", "--quiet", "--no-compile"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel(made))], check=True, capture_output=True)
    (site,) = folder.rglob("site-packages")
    # As plain paths: what these folders themselves refer to (this source tree, say) is not followed.
    elsewhere = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (site / "elsewhere.pth").write_text("\n".join(elsewhere), encoding="utf-8")
    return tools


def clean() -> dict[str, str]:
    """The environment of somebody who has never heard of this source tree, and is offline."""
    return {**{k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "LOOPROP"))}, "HF_HUB_OFFLINE": "1"}


def test_the_five_lines_of_the_readme_run_from_another_folder(tools: Path, tmp_path: Path) -> None:
    found = re.search(r"^## Five lines\n\n```python\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)
    assert found
    assert len([line for line in found[1].splitlines() if line]) == 5
    script = found[1] + "import looprop; print(looprop.__file__)\n"
    done = subprocess.run(
        [tools / "python", "-c", script], cwd=tmp_path, env=clean(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    said, place = done.stdout.splitlines()
    assert said.startswith("positive {")
    assert Path(place).is_relative_to(tools.parent)
    assert "This is not a bad film at all." in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_command_runs_from_another_folder(tools: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [tools / "looprop", "methods"], cwd=tmp_path, env=clean(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "fast-shapley" in done.stdout

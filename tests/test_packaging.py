"""What the two commands and the package promise, checked without installing anything anew."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
TEXT_FILES = [
    path
    for folder in (".ci", "src", "experiments", "tests", "docs", "benchmarks", "training", "examples", "website")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.is_file()
    and path.suffix in {"", ".py", ".md", ".yaml", ".yml", ".toml", ".html", ".css", ".js", ".json", ".txt", ".cff"}
] + [path for path in sorted(ROOT.iterdir()) if path.is_file() and path.name != ".git"]


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~ ]", line)[0].lower() for line in requirements}


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.lower().split("==") for line in lines if line and not line.startswith("#"))


def test_every_direct_dependency_is_pinned() -> None:
    extras = PROJECT["project"]["optional-dependencies"].values()
    stated = names(PROJECT["project"]["dependencies"]).union(*map(names, extras)) - {"looprop"}
    assert stated == set(constraints())


def test_torch_and_transformers_have_an_upper_bound_and_the_pinned_version() -> None:
    ranges = {line.split(">=")[0]: line for line in PROJECT["project"]["dependencies"]}
    assert "," in ranges["torch"]
    assert "," in ranges["transformers"]
    assert constraints()["torch"] == "2.13.0"
    assert constraints()["transformers"].startswith("5.")


def test_the_version_is_in_one_form_everywhere() -> None:
    number = PROJECT["project"]["version"]
    assert f"version: {number}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"[{number}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_package_is_typed() -> None:
    assert (ROOT / "src/looprop/py.typed").is_file()
    assert "py.typed" in PROJECT["tool"]["setuptools"]["package-data"]["looprop"]


def test_ci_runs_exactly_make_test() -> None:
    lines = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in lines
    assert lines[-1] == "exec make test"
    assert (ROOT / ".ci/run").stat().st_mode & 0o111, ".ci/run must be executable"


@pytest.mark.parametrize(
    ("target", "commands"),
    [
        ("demo", ["-e .\n", "looprop demo"]),
        ("test", ["-e '.[dev]'", "ruff check", "mypy\n", "-m pytest --numprocesses 2 --dist loadfile\n"]),
        ("test-quick", ["-e '.[dev]'", "not slow and not ray and not browser"]),
        ("docs", ["-e '.[dev]'", "-m website\n"]),
        ("package", ["-e '.[dev]'", "-m build\n"]),
    ],
)
def test_make_targets(target: str, commands: list[str]) -> None:
    listed = subprocess.run(
        ["make", "--dry-run", "--always-make", target], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for command in ["-m venv .venv", "-c constraints.txt", *commands]:
        assert command in listed, f"make {target} does not run {command!r}"


def test_make_honours_python() -> None:
    listed = subprocess.run(
        ["make", "-nB", "venv", "PYTHON=mypython"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert "mypython -m venv" in listed


def test_every_package_folder_has_an_init() -> None:
    folders = {path.parent for path in (ROOT / "src/looprop").rglob("*.py")}
    missing = [str(folder.relative_to(ROOT)) for folder in sorted(folders) if not (folder / "__init__.py").exists()]
    assert not missing, f"setuptools does not find folders without __init__.py: {missing}"


def test_no_path_of_a_machine() -> None:
    # Written in two pieces so that this file passes its own test.
    machine = re.compile(rb"(?<![\w.])/(?:wo" rb"rk|ho" rb"me|Us" rb"ers|tm" rb"p)/\w|\.\./sha" rb"red")
    found = {path.relative_to(ROOT).as_posix(): machine.search(path.read_bytes()) for path in TEXT_FILES}
    assert len(found) > 500, "the files of the repository are not where they are looked for"
    assert not [f"{name}: {path.group().decode()}" for name, path in found.items() if path]


def test_sources_have_docstrings() -> None:
    without = [
        str(path.relative_to(ROOT))
        for folder in ("src/looprop", "experiments")
        for path in (ROOT / folder).rglob("*.py")
        if path.stat().st_size and not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not without, f"a module starts with a sentence that says what it is for: {without}"

"""Kinds of experiments: a new one is a folder that runs, goes on and is reported; code runs only where it was named."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from looprop.cli.main import app
from looprop.errors import DataError, UnknownNameError
from looprop.study import experiment_names, kinds, load_kind, parse_spec, read_run, reproduce, write_report
from looprop.study.kinds import get_kind, kind_names
from study.own_kind import SPEC, write_own_kind

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(autouse=True)
def nothing_loaded() -> Iterator[None]:
    """As in a new process: no folder was loaded, and none stays so."""

    def loaded() -> dict[str, object]:
        return {name: sys.modules.pop(name) for name in [*sys.modules] if name.startswith("looprop_experiment_")}

    before = loaded()
    yield
    loaded()
    sys.modules.update(before)  # type: ignore[arg-type]


@pytest.fixture
def squares(tmp_path: Path) -> Path:
    return write_own_kind(tmp_path)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As installed from a wheel: no clone around the package."""
    monkeypatch.setattr(kinds, "_ROOT", tmp_path)


def looprop(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return done.exit_code, done.output


def test_a_new_kind_is_a_folder(squares: Path, installed: None, tmp_path: Path) -> None:
    assert sum(len(path.read_text("utf-8").splitlines()) for path in squares.iterdir()) <= 150
    out = tmp_path / "run"
    code, said = looprop("reproduce", squares, "--out", out)
    assert code == 0, said
    run = read_run(out)
    assert [(row["example"], row["area"]) for row in run.rows] == [("short", 4.0), ("long", 49.0)]
    assert reproduce(squares, out=out, progress=False).rows == run.rows
    assert {path.name for path in write_report(out)} == {"report.html", "report.md", "tables.tex", "summary.csv"}
    report = (out / "report.md").read_text(encoding="utf-8")
    assert "| long | 49.00 |" in report
    assert "| holds | areas are not negative |" in report


def test_a_run_of_a_folder_is_reported_where_the_folder_is_named(
    squares: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reproduce(squares, out=tmp_path / "run", progress=False)
    (tmp_path / "ran").unlink()
    for name in [name for name in sys.modules if name.startswith("looprop_experiment_")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.chdir(tmp_path)
    code, said = looprop("report", "run")
    assert code == 1
    assert "unknown kind of experiment 'squares'" in said
    assert "named by --experiment FOLDER" in said
    assert not (tmp_path / "ran").exists()
    code, said = looprop("report", "run", "--experiment", "squares")
    assert code == 0, said
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("kind", ["squares", "./squares", "../squares", "squares/__init__"])
def test_no_code_runs_that_only_a_file_names(
    kind: str, squares: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.yaml").write_text(SPEC.replace("kind: squares", f"kind: {kind}"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownNameError, match="unknown kind of experiment"):
        reproduce("own.yaml", out="run", progress=False)
    with pytest.raises(UnknownNameError, match="unknown experiment 'squares'"):
        reproduce("squares", out="run", progress=False)  # a name, although there is such a folder
    assert not (tmp_path / "ran").exists()
    reproduce("./squares", out="run", progress=False)
    assert (tmp_path / "ran").exists()


def test_experiments_of_the_clone_have_names(tmp_path: Path) -> None:
    assert {"context", "exhaustive", "planted", "readings", "truths"} <= set(experiment_names())
    assert read_run(RESULTS / "planted").claims()
    run = reproduce("planted", out=tmp_path / "run", progress=False)
    assert {row["example"] for row in run.rows} == {row["example"] for row in read_run(RESULTS / "planted").rows}


def test_without_a_clone_the_error_says_where_they_are(installed: None, tmp_path: Path) -> None:
    assert "truths" not in experiment_names()
    for arguments in (["reproduce", "truths"], ["report", RESULTS / "truths-sst2"]):
        code, said = looprop(*arguments)
        assert code == 1
        assert "'truths' is not part of the installed package" in said
        assert "looprop reproduce experiments/truths" in said
    folder = RESULTS.parent / "experiments" / "planted"
    code, said = looprop("report", RESULTS / "planted", "--out", tmp_path / "report", "--experiment", folder)
    assert code == 0, said


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("empty", None, "it holds no __init__.py with its KIND"),
        ("texts", "KIND = 1", "called like a Python module, and not networks, texts, toys, got 'texts'"),
        ("an.other", "KIND = 1", "called like a Python module"),
        ("nothing", "", "must hold an instance of a subclass of looprop.study.Kind as KIND"),
        ("raises", "1 / 0", "cannot load .*: ZeroDivisionError: division by zero"),
    ],
)
def test_a_folder_that_is_no_experiment_says_why(tmp_path: Path, name: str, code: str | None, message: str) -> None:
    (tmp_path / name).mkdir()
    if code is not None:
        (tmp_path / name / "__init__.py").write_text(code)
    for _ in range(2):
        with pytest.raises(DataError, match=message):
            load_kind(tmp_path / name)


def test_two_folders_of_one_name_are_not_mixed_up(tmp_path: Path) -> None:
    first, second = write_own_kind(tmp_path / "a"), write_own_kind(tmp_path / "b")
    assert load_kind(first) is load_kind(first)
    with pytest.raises(DataError, match=r"'squares' was loaded from .* before: rename one of them"):
        load_kind(second)


def test_the_specification_in_a_folder_is_of_its_kind(squares: Path) -> None:
    (squares / "experiment.yaml").write_text("{name: x, kind: texts, question: x, methods: [loo], data: {sst2: {}}}")
    with pytest.raises(DataError, match="must be of the kind in its folder, got 'texts'"):
        reproduce(squares, progress=False)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("length: 7", "length: -1", "case 'long': length must be >= 0, got -1"),
        ("length: 7", "width: 7", "unknown field in x: cases.long 'width'"),
        ("length: 7", "", "x: cases.long: field 'length' is missing"),
        ("cases", "data", "unknown field in x: data.short 'length'"),
        (", cases: {short: {length: 2}, long: {length: 7}}", "", "of kind 'squares' runs on cases and nothing else"),
    ],
)
def test_a_kind_names_what_is_wrong_with_a_specification(squares: Path, old: str, new: str, message: str) -> None:
    load_kind(squares)
    assert old in SPEC
    with pytest.raises((DataError, UnknownNameError), match=message):
        parse_spec(SPEC.replace(old, new), where="x")


def test_every_file_is_a_kind() -> None:
    assert {type(get_kind(name)).__name__.lower() for name in kind_names()} == set(kind_names())
    with pytest.raises(UnknownNameError, match="unknown kind of experiment 'toy'; did you mean 'toys'"):
        get_kind("toy")

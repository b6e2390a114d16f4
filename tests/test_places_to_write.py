"""Where something is to be written is looked at before anything is computed."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from looprop.cli.main import app
from looprop.errors import DataError
from looprop.evaluation import Evaluation
from looprop.files import check_folder_place, check_place, write_whole
from looprop.study import reproduce, write_report

SPEC = """
name: {name}
kind: toys
question: which?
cases: {{a: {{inputs: [1.0, 2.0], value: [1.0, 1.0]}}}}
methods: [loo]
"""


@pytest.mark.parametrize("name", ["none/file", "file/below", "folder", "x" * 300, "nul\0", "/proc/file", "pipe"])
def test_a_file_that_cannot_be_written_is_known_before(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="cannot "):
        check_place(tmp_path / name)
    assert (tmp_path / "file").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder", "pipe"], "nothing is left of looking"


@pytest.mark.parametrize("name", ["file", "file/below", "file/far/below", "x" * 300, "nul\0", "/proc/new", "dangling"])
def test_a_folder_that_cannot_be_made_is_known_before(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(DataError, match="cannot use"):
        check_folder_place(tmp_path / name)


def test_places_that_can_be_written_pass_and_are_left_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "file.html").write_text("mine")
    for name in ("file.html", "new.html"):
        check_place(tmp_path / name)
        Evaluation.check_place(tmp_path / name)
    for name in ("new", "new/and/deeper", "."):
        check_folder_place(tmp_path / name)
        Evaluation.check_place(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["file.html"]
    assert (tmp_path / "file.html").read_text() == "mine"


def test_what_cannot_be_written_after_all_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot write"):
        write_whole("/proc/file", b"content")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match="cannot write"):
        write_whole(tmp_path / "folder", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "page.html").symlink_to(tmp_path / "precious")
    write_whole(tmp_path / "page.html", b"new")
    assert (tmp_path / "precious").read_text() == "precious"
    assert (tmp_path / "page.html").read_bytes() == b"new"


@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate", "demo", "--out", "file"],
        ["evaluate", "demo", "--out", "file/below"],
        ["evaluate", "demo", "--out", "none/page.json"],
        ["evaluate", "demo", "--html", "/proc/page.html"],
        ["evaluate", "demo", "--html", "none/page.html"],
        ["audit", "demo", "--html", "/proc/page.html"],
        ["reproduce", "softmax", "--out", "file"],
        ["report", "run", "--out", "file"],
    ],
    ids=" ".join,
)
def test_commands_refuse_before_they_compute(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    reproduce("softmax", out="run", progress=False)
    Path("file").write_text("mine")

    def computing(*_: object, **__: object) -> None:
        raise AssertionError("computed before it was known where to write")

    for name in (
        "looprop.cli.evaluating.load_reader",
        "looprop.study.reproducing.get_kind",
        "looprop.study.report.writing.contents_of",
        "looprop.auditing.audit.audit",
    ):
        monkeypatch.setattr(name, computing)
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    assert "cannot " in done.output
    assert "Error" not in done.output
    assert Path("file").read_text() == "mine"


@pytest.mark.parametrize(
    "name", ["../../climbed", "/absolute", "x" * 300, "'a\\nb'", '"a\\0b"', "..", ".hidden", "7", "a/b"]
)
def test_names_of_experiments_stay_in_their_folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "deep" / "home"
    home.mkdir(parents=True)
    monkeypatch.chdir(home)
    (home / "spec.yaml").write_text(SPEC.format(name=name))
    with pytest.raises(DataError, match="the name of an experiment must be"):
        reproduce("spec.yaml", progress=False)
    assert [path.name for path in tmp_path.rglob("*")] == ["deep", "home", "spec.yaml"]
    with pytest.raises(DataError):
        write_report("runs")

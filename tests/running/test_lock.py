"""One process per run folder, whoever dies, and nothing that only one system has."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from looprop.errors import DataError
from looprop.running.inside import locked
from looprop.running.store import Store, open_store

SOURCES = sorted((Path(__file__).parents[2] / "src" / "looprop").rglob("*.py"))
IDENTITY = {"spec": "x"}
# Holds the lock until somebody ends it.
HOLD = """
import sys
from pathlib import Path
from looprop.running.inside import locked
with locked(Path(sys.argv[1]) / "lock"):
    print("held", flush=True)
    sys.stdin.read()
"""
# Takes the lock so many times; what is inside twice finds the file of the other one.
CONTEND = """
import os, sys
from pathlib import Path
from looprop.errors import DataError
from looprop.running.inside import locked
folder, left = Path(sys.argv[1]), int(sys.argv[2])
while left:
    try:
        with locked(folder / "lock"):
            os.close(os.open(folder / "inside", os.O_CREAT | os.O_EXCL))
            os.unlink(folder / "inside")
            left -= 1
    except DataError:
        pass
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    """Another process that has the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_the_same_process_is_told_that_it_has_the_folder(tmp_path: Path) -> None:
    with open_store(tmp_path, IDENTITY) as store:
        with pytest.raises(DataError, match=f"in use by process {os.getpid()} on"), open_store(tmp_path, IDENTITY):
            pass
        store.note(still="held")
        with pytest.raises(DataError, match="in use by"), open_store(tmp_path, IDENTITY):
            pass
    assert not list(tmp_path.glob("lock*"))
    with open_store(tmp_path, IDENTITY):
        pass


def test_a_second_process_is_told_who_has_it_and_gets_it_afterwards(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        for _ in range(2):  # asking changes nothing
            with pytest.raises(DataError, match=f"in use by process {process.pid} on"), locked(tmp_path / "lock"):
                pass
        process.communicate()
        assert process.returncode == 0
    assert not list(tmp_path.iterdir())
    with locked(tmp_path / "lock"):
        assert (tmp_path / "lock").exists()
    assert not list(tmp_path.iterdir())


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        with pytest.raises(DataError, match=f"in use by process {process.pid}"), open_store(tmp_path, IDENTITY):
            pass
        process.kill()
        process.wait()
        assert (tmp_path / "lock").exists(), "it had no time to remove anything"
        with open_store(tmp_path, IDENTITY) as store:
            assert isinstance(store, Store)
    assert not list(tmp_path.glob("lock*"))


def test_an_error_inside_gives_the_lock_back(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="inside"), locked(tmp_path / "lock"):
        raise RuntimeError("inside")
    assert not list(tmp_path.iterdir())


def test_never_two_at_once(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", CONTEND, str(tmp_path), "100"], stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [(process.communicate()[1], process.returncode) for process in processes] == [("", 0)] * 3
    assert not list(tmp_path.iterdir())


def test_nothing_imports_what_only_unix_has() -> None:
    only_unix = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not names & only_unix, path

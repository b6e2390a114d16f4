"""One process per run folder: a lock that the system itself gives back when its holder dies, however it dies.

Beside the lock lies a note with the name of its holder. Both are removed when the lock is given back. So whoever opened
the file just before may get the lock of a file that is gone, which guards nothing: then it starts again.
"""

import contextlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from looprop.errors import DataError
from looprop.running.inside import check_file


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, which is removed afterwards; a second process that asks is told who has it.

    Taking a lock empties its file, so that one which is a link is refused.
    """
    note = path.with_name(f"{path.name}.holder")
    for own in (path, note):
        check_file(own, alone=True)
    lock = _taken(path, note)
    try:
        # The note of a process that was killed is removed, and a new file made: whatever it was, it is not written to.
        note.unlink(missing_ok=True)
        with note.open("x", encoding="utf-8") as file:
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
        yield
    finally:
        # Still locked, so that nobody else's files are removed. Windows keeps a file that is open: there the lock
        # itself removes it.
        for mine in (note, path):
            with contextlib.suppress(OSError):
                mine.unlink()
        lock.release()


def _taken(path: Path, note: Path) -> BaseFileLock:
    lock = FileLock(path)
    while True:
        # A link that somebody puts there in this moment is not followed.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o666))
        opened = _identity(path)
        free = True
        try:
            lock.acquire(timeout=0)
        except Timeout:
            free = False
        if opened is None or _identity(path) != opened:
            lock.release()
        elif free:
            return lock
        else:
            raise DataError(
                f"{path.parent} is in use by {_holder(note)}: wait for it, stop it, or use another folder"
            ) from None


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file stands at this path; None where there is none."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _holder(note: Path) -> str:
    try:
        return note.read_text(encoding="utf-8").strip() or "another process"
    except (OSError, UnicodeDecodeError):
        return "another process"

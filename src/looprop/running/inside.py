"""What lies in a run folder is its own: plain files and folders, never links elsewhere, and one process that writes.

Whoever can put a link into a shared folder could otherwise have files of somebody else emptied, replaced or removed.

The system itself gives the lock back when its holder dies, however it dies. Beside the lock lies a note with the name
of its holder. Both are removed when the lock is given back. So whoever opened the file just before may get the lock of
a file that is gone, which guards nothing: then it starts again.
"""

import contextlib
import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from looprop.errors import DataError

_KINDS = ((stat.S_ISLNK, "a link"), (stat.S_ISDIR, "a folder"), (stat.S_ISREG, "a file"))


def check_file(path: Path, *, alone: bool = False) -> bool:
    """Is there a file? Raises if there is something that is no plain file of this folder.

    alone: it will be written in place, so that it may have no second name (a hard link) elsewhere either.
    """
    found = _found(path, stat.S_ISREG, "file of the run folder")
    if found and alone and found.st_nlink > 1:
        raise DataError(f"{path} is a link: the same file has another name elsewhere. Remove it, or use another folder")
    return found is not None


def check_folder(path: Path) -> bool:
    """Is there a folder? Raises if there is something else, such as a link to one."""
    return _found(path, stat.S_ISDIR, "folder of the run") is not None


def _found(path: Path, is_wanted: Callable[[int], bool], wanted: str) -> os.stat_result | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if not is_wanted(found.st_mode):
        kind = next((name for test, name in _KINDS if test(found.st_mode)), "a device or pipe")
        raise DataError(f"{path} is {kind} and no {wanted}: remove it, or use another folder")
    return found


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

"""One process per run folder: a lock that the system itself gives back when its holder dies, however it dies."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from looprop.errors import DataError


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, which is removed afterwards; a second process that asks is told who has it."""
    while True:
        with path.open("a+", encoding="utf-8") as file:
            _take(file, path)
            # Between opening and locking, its last holder may have removed the file: then the lock of another file was
            # taken.
            if not _same(file, path):
                continue
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
            file.flush()
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def _take(file: IO[str], path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "another process"
        raise DataError(f"{path.parent} is in use by {holder}: wait for it, stop it, or use another folder") from None


def _same(file: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False

"""One process per run folder: a lock that the system itself gives back when its holder dies, however it dies."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from looprop.errors import DataError


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`; a second process that asks is told who has it.

    The file stays when the lock is given back: removing it could remove another process's lock.
    """
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise DataError(f"{path.parent} is in use by {holder}: wait for it, stop it, or use another folder") from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)

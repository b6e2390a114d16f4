"""What lies in a run folder is its own: plain files and folders, never links to something elsewhere.

Whoever can put a link into a shared folder could otherwise have files of somebody else emptied, replaced or removed.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

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

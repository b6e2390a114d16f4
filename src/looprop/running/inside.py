"""What lies in a run folder is its own: plain files and folders, never links to something elsewhere.

Whoever can put a link into a shared folder could otherwise have files of somebody else emptied, replaced or removed.
"""

import os
import stat
from pathlib import Path

from looprop.errors import DataError


def check_file(path: Path, *, alone: bool = False) -> bool:
    """Is there a file? Raises if there is something that is no plain file of this folder.

    alone: it will be written in place, so that it may have no second name (a hard link) elsewhere either.
    """
    found = _found(path)
    if found is None:
        return False
    if not stat.S_ISREG(found.st_mode):
        raise DataError(f"{path} is {_kind(found)} and no file of the run folder: remove it, or use another folder")
    if alone and found.st_nlink > 1:
        raise DataError(f"{path} is a link: the same file has another name elsewhere. Remove it, or use another folder")
    return True


def check_folder(path: Path) -> bool:
    """Is there a folder? Raises if there is something else, such as a link to one."""
    found = _found(path)
    if found is None:
        return False
    if not stat.S_ISDIR(found.st_mode):
        raise DataError(f"{path} is {_kind(found)} and no folder of the run: remove it, or use another folder")
    return True


def _found(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def _kind(found: os.stat_result) -> str:
    kinds = ((stat.S_ISLNK, "a link"), (stat.S_ISDIR, "a folder"), (stat.S_ISREG, "a file"))
    return next((name for test, name in kinds if test(found.st_mode)), "a device or pipe")

"""Files that are written whole or not at all, and JSON that says what it is."""

import contextlib
import json
import math
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from looprop.errors import DataError, InputError

HALF_WRITTEN = ".tmp"
"""How the name of a file ends while it is being written."""
TRIAL = "trial"
"""What a file is called that is made only to see whether one can be."""


def plain(value: Any, name: str) -> Any:
    """The value as JSON can hold it."""
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist(), name)
    if isinstance(value, float) and not math.isfinite(value):
        if math.isinf(value):
            raise InputError(f"{name} holds {value}, which JSON cannot")
        return None
    if isinstance(value, Mapping):
        return {str(key): plain(item, name) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset | range):
        return [plain(item, name) for item in value]
    return value if value is None or isinstance(value, str | int | float) else str(value)


def to_json(data: Mapping[str, Any]) -> bytes:
    """The data as a JSON file; NaN and infinity raise."""
    # Lone surrogates cannot be written as UTF-8, so everything outside ASCII is escaped.
    return (json.dumps(data, allow_nan=False, indent=1) + "\n").encode("ascii")


def check_schema(data: Any, schema: str, version: int) -> None:
    """Raises unless the data say that they are of this schema and version."""
    if not isinstance(data, Mapping) or data.get("schema") != schema:
        got = data.get("schema") if isinstance(data, Mapping) else type(data).__name__
        raise DataError(f"expected data of schema {schema!r}, got {got!r}")
    if data.get("version") != version:
        raise DataError(f"this looprop reads {schema} version {version}, got version {data.get('version')!r}")


def file_kind(path: str | os.PathLike[str], allowed: Sequence[str]) -> str:
    """The ending of a file name, one of those allowed."""
    if (suffix := Path(path).suffix.lower()) not in allowed:
        raise InputError(f"the file name must end in {', '.join(allowed)}, got {os.fspath(path)!r}")
    return suffix


def write_whole(path: str | os.PathLike[str], content: bytes, *, durable: bool = False) -> Path:
    """Writes beside the place and renames, so that a reader never sees half a file, and no link is followed.

    durable: wait until file and name are on the disk, so that also after a crash of the machine the file is there as a
        whole or not at all.
    """
    place = Path(path)
    if not place.parent.is_dir():
        raise DataError(f"cannot write {place.name}: there is no folder {str(place.parent)!r}")
    # At most 40 characters of the name, of up to four bytes each, so that it is never too long.
    temporary = place.with_name(f".{place.name[:40]}.{secrets.token_hex(8)}{HALF_WRITTEN}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(place)
        if durable:
            _sync_folder(place.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise DataError(f"cannot write {place}: {error.strerror or error}") from error
        raise
    return place


def was_half_written(name: str, of: str) -> bool:
    """Is that the name of a file that `write_whole` had begun, of one whose name matches a pattern?

    >>> was_half_written(".manifest.json.0123456789abcdef.tmp", r"manifest[.]json"), was_half_written(".x.tmp", ".*")
    (True, False)
    """
    return re.fullmatch(rf"[.](?:{of})[.][0-9a-f]{{16}}{re.escape(HALF_WRITTEN)}", name) is not None


def check_place(path: str | os.PathLike[str]) -> None:
    """Raises now if a file could not be written there later: before hours are spent on what would go into it."""
    place = Path(path)
    _check_name(place)
    if not place.parent.is_dir():
        raise DataError(f"cannot write {place.name}: there is no folder {str(place.parent)!r}")
    if place.is_dir():
        raise DataError(f"cannot write {place}: it is a folder")
    if place.exists() and not place.is_file():
        raise DataError(f"cannot write {place}: it is no file")
    _check_folder(place.parent, f"cannot write {place}")


def check_folder_place(path: str | os.PathLike[str]) -> None:
    """Raises now if a folder could not be made there, or no file in it, later."""
    place = Path(path)
    _check_name(place)
    existing = next(folder for folder in (place, *place.absolute().parents) if folder.exists() or folder.is_symlink())
    if not existing.is_dir():
        raise DataError(f"cannot use {place} as a folder: {existing} is none")
    _check_folder(existing, f"cannot use {place} as a folder")


def _check_name(place: Path) -> None:
    try:
        place.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as error:
        raise DataError(f"cannot use {str(place)!r} as a name: {getattr(error, 'strerror', None) or error}") from None


def _check_folder(folder: Path, refusal: str) -> None:
    """Rights alone do not tell: disks are mounted read-only, and some folders take no files. So one is made."""
    with contextlib.suppress(OSError, AttributeError):
        # One without a name, where the system knows such: nothing is left of it, also by a process that is killed now.
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY))
        return
    trial = folder / f".{TRIAL}.{secrets.token_hex(8)}{HALF_WRITTEN}"
    try:
        trial.open("xb").close()
        trial.unlink()
    except OSError as error:
        raise DataError(f"{refusal}: {error.strerror or error}") from None


def _sync_folder(folder: Path) -> None:
    """A new name is on the disk when its folder is; Windows has no way to say so."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_json(path: str | os.PathLike[str]) -> Any:
    """The content of a .json file; whatever is wrong with it raises a DataError."""
    file_kind(path, (".json",))
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"there is no file {os.fspath(path)!r}") from None
    except RecursionError:
        raise DataError(f"{os.fspath(path)!r} is nested too deeply") from None
    except ValueError as error:  # also numbers of too many digits, and what is not UTF-8
        raise DataError(f"{os.fspath(path)!r} is not whole JSON: {error}") from error
    except OSError as error:
        raise DataError(f"cannot read {os.fspath(path)!r}: {error.strerror}") from error

"""Files that are written whole or not at all, and JSON that says what it is."""

import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from looprop.errors import DataError, InputError


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


def write_whole(path: str | os.PathLike[str], content: bytes) -> Path:
    """Writes beside the place and renames, so that a reader never sees half a file."""
    place = Path(path)
    if not place.parent.is_dir():
        raise DataError(f"cannot write {place.name}: there is no folder {str(place.parent)!r}")
    handle, temporary = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name[:40]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        # mkstemp makes files that only their owner can read.
        mask = os.umask(0)
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)
        Path(temporary).replace(place)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return place


def read_json(path: str | os.PathLike[str]) -> Any:
    """The content of a .json file; whatever is wrong with it raises a DataError."""
    file_kind(path, (".json",))
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"there is no file {os.fspath(path)!r}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{os.fspath(path)!r} is not whole JSON: {error}") from error
    except OSError as error:
        raise DataError(f"cannot read {os.fspath(path)!r}: {error.strerror}") from error

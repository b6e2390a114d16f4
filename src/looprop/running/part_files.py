"""The parts of a run folder: which there are, which of them are whole, and which example is where.

    00007-<sha256>.parquet     the name holds a number, the later the higher, and the checksum of the content

A file whose name is not of this form is nobody's: it is neither read nor removed, and said to be odd.
"""

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from looprop.errors import DataError
from looprop.running import parts
from looprop.running.inside import check_file, check_folder
from looprop.running.parts import Row

FOLDER = "parts"
DIGITS = 16  # of the checksum, in a part's name
_NAME = re.compile(rf"(\d{{5,}})-([0-9a-f]{{{DIGITS}}})[.]parquet")
HALF_NAME = rf"\d{{5,}}-[0-9a-f]{{{DIGITS}}}[.]parquet"
"""The form of a part's name, for what was half written of one."""


@dataclass
class Found:
    """What lies in a folder of parts. where: the part that has the rows of an example, the latest if there are several.

    failed: examples of which a row says that something went wrong. unmarked: parts that do not say to which run they
    belong, as none did at first.
    """

    where: dict[str, Path] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    damaged: list[Path] = field(default_factory=list)
    unmarked: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)


class Foreign(DataError):
    """A part of another run."""


def list_parts(folder: Path) -> list[Path]:
    """The parts of a run folder, in the order in which they were written."""
    if not check_folder(folder / FOLDER):
        return []
    own = [path for path in (folder / FOLDER).iterdir() if _NAME.fullmatch(path.name)]
    return sorted(own, key=lambda path: (_number(path), path.name))


def part_name(content: bytes, before: Collection[Path]) -> str:
    """The name of the next part."""
    return f"{max(map(_number, before), default=0) + 1:05d}-{_checksum(content)}.parquet"


def read_part(path: Path, run: str | None = None, unmarked: Collection[str] = ()) -> tuple[list[Row], bool] | None:
    """The rows of a part, and whether it says whose it is; None if its content is not what its name says.

    run: the run that it must belong to; None takes any that does not say. unmarked: names of parts that need not say.
    """
    check_file(path)
    content = path.read_bytes()
    if _checksum(content) != path.stem.partition("-")[2]:
        return None
    try:
        rows, of = parts.of_a_run(content)
    except DataError as error:
        raise DataError(f"{path} is not a part of a run: {error}. Move it away") from error
    if of != (run or "") and not (not of and path.name in unmarked):
        raise Foreign(f"{path} is a part of another run, or of none: move it away, or use another folder")
    return rows, bool(of)


def read_parts(folder: Path, run: str | None, unmarked: Collection[str]) -> Found:
    """All parts of a run folder."""
    found = Found()
    if check_folder(folder / FOLDER):
        names = sorted(path.name for path in (folder / FOLDER).iterdir())
        found.odd += [name for name in names if name.endswith(".parquet") and not _NAME.fullmatch(name)]
    for path in list_parts(folder):
        read = read_part(path, run, unmarked)
        if read is None:
            found.damaged.append(path)
            continue
        rows, marked = read
        if not marked:
            found.unmarked.append(path.name)
        examples = {row["example"] for row in rows}
        found.where.update((row["example"], path) for row in rows)
        found.failed -= examples
        found.failed |= {row["example"] for row in rows if row.get("error")}
    return found


def _number(path: Path) -> int:
    return int(path.name.partition("-")[0])


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:DIGITS]

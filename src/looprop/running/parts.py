"""The parts of a run folder: rows as Parquet, to bytes and back, every float bit by bit.

    parts/00007-<sha256>.parquet     the name holds a number, the later the higher, and the checksum of the content

A file whose name is not of this form is nobody's: it is neither read nor removed, and noted as odd. A part carries the
name of its run, so that a part of another one is known for what it is.
"""

import hashlib
import io
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from looprop.errors import DataError
from looprop.running.inside import check_folder

Row = dict[str, Any]
"""What is kept of one example, by column."""

RUN = b"looprop.run"
"""Under which key of its metadata a part says to which run it belongs."""
FOLDER = "parts"
NAME = r"(\d{5,})-([0-9a-f]{16})[.]parquet"
"""The form of a part's name: number and checksum."""
_KINDS = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string(), list: pa.list_(pa.float64())}


def list_parts(folder: Path) -> list[Path]:
    """The parts of a run folder, in the order in which they were written."""
    if not check_folder(folder / FOLDER):
        return []
    own = [path for path in (folder / FOLDER).iterdir() if re.fullmatch(NAME, path.name)]
    return sorted(own, key=lambda path: (_number(path), path.name))


def odd_names(folder: Path) -> list[str]:
    """Names in the folder of parts that end like those of parts and are of another form."""
    names = (path.name for path in (folder / FOLDER).iterdir())
    return sorted(name for name in names if name.endswith(".parquet") and not re.fullmatch(NAME, name))


def part_name(content: bytes, before: Collection[Path]) -> str:
    """The name of the next part."""
    return f"{max(map(_number, before), default=0) + 1:05d}-{_checksum(content)}.parquet"


def is_whole(path: Path, content: bytes) -> bool:
    """Is the content of a part what its name says?"""
    return path.stem.partition("-")[2] == _checksum(content)


def _number(path: Path) -> int:
    return int(path.name.partition("-")[0])


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def to_table(rows: Sequence[Row]) -> pa.Table:
    """An Arrow table of rows; a column's type is that of its first value that is not None."""
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        columns[name] = _column(values, _kind(name, next((value for value in values if value is not None), None)))
    return pa.table(columns)


def _column(values: list[Any], kind: Any) -> pa.Array:
    try:
        return pa.array(values, type=kind)
    except UnicodeEncodeError:
        # Lone surrogates, from a text that an error quotes: UTF-8 has none.
        return pa.array([None if text is None else text.encode("utf-8", "backslashreplace") for text in values], kind)


def _kind(name: str, sample: Any) -> Any:
    if sample is None:
        return pa.bool_() if name == "flipped" else pa.float64()
    for python, kind in _KINDS.items():
        if isinstance(sample, python):
            return kind
    raise DataError(f"column {name!r} holds {type(sample).__name__}, which a table of results does not know")


def to_bytes(rows: Sequence[Row], run: str = "") -> bytes:
    """A Parquet file in memory. run: the name of the run that it belongs to."""
    sink, metadata = io.BytesIO(), {RUN: run.encode()} if run else None
    pq.write_table(to_table(rows).replace_schema_metadata(metadata), sink, compression="zstd")
    return sink.getvalue()


def from_bytes(data: bytes) -> list[Row]:
    """The rows of a Parquet file in memory."""
    return of_a_run(data)[0]


def of_a_run(data: bytes) -> tuple[list[Row], str]:
    """The rows of a Parquet file in memory, and the run that it belongs to, if it says so. What is no part raises."""
    try:
        table = pq.read_table(io.BytesIO(data))
        rows: list[Row] = table.to_pylist()
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise DataError(f"it is no whole Parquet file: {' '.join(str(error).split())[:200]}") from error
    if not all(isinstance(row.get("example"), str) for row in rows):
        raise DataError("it holds no rows of examples")
    return rows, (table.schema.metadata or {}).get(RUN, b"").decode("utf-8", "replace")


def memory(path: Path) -> int:
    """About how many bytes the rows of a part take in memory."""
    about = pq.read_metadata(path)
    return sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))

"""Rows as Parquet: to bytes and back, every float bit by bit."""

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from looprop.errors import DataError
from looprop.evaluation.example import Row


def to_table(rows: Sequence[Row]) -> pa.Table:
    """An Arrow table of rows; a column's type is that of its first value that is not None."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    fields = []
    for name in names:
        sample = next((row[name] for row in rows if row.get(name) is not None), None)
        fields.append(pa.field(name, _kind(name, sample)))
    columns = [pa.array([row.get(field.name) for row in rows], type=field.type) for field in fields]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _kind(name: str, sample: Any) -> Any:
    if sample is None:
        return pa.bool_() if name == "flipped" else pa.float64()
    if isinstance(sample, bool):
        return pa.bool_()
    if isinstance(sample, int):
        return pa.int64()
    if isinstance(sample, float):
        return pa.float64()
    if isinstance(sample, str):
        return pa.string()
    if isinstance(sample, list):
        return pa.list_(pa.float64())
    raise DataError(f"column {name!r} holds {type(sample).__name__}, which a table of results does not know")


def to_bytes(rows: Sequence[Row]) -> bytes:
    """A Parquet file in memory."""
    sink = io.BytesIO()
    pq.write_table(to_table(rows), sink, compression="zstd")
    return sink.getvalue()


def from_bytes(data: bytes) -> list[Row]:
    """The rows of a Parquet file in memory."""
    rows: list[Row] = pq.read_table(io.BytesIO(data)).to_pylist()
    return rows

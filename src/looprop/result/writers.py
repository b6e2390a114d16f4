"""What results are saved as: one table of writers by file ending.

A result class has views: `to_dict` (plain data), `records` (rows of a table), `page` (HTML) and `figure` (matplotlib).
Every class with a view is saved in every format that is made of it. A new format is one function:

    @writer(".txt", "records")
    def _text(rows):
        return "\\n".join(map(str, rows)).encode()
"""

import csv
import io
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from looprop.files import file_kind, to_json, write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

View = Literal["to_dict", "records", "page", "figure"]
Record = Mapping[Any, Any]
"""One row of a table: plain values by the names of their columns."""
Function = TypeVar("Function", bound=Callable[[Any], bytes])


@dataclass(frozen=True)
class Writer:
    """How the files of one ending are made. view: the method of a result whose value `to_bytes` takes."""

    view: View
    to_bytes: Callable[[Any], bytes]


WRITERS: dict[str, Writer] = {}
"""By file ending."""


def writer(ending: str, view: View) -> Callable[[Function], Function]:
    """Register a function that makes a file of a view."""

    def register(function: Function) -> Function:
        WRITERS[ending] = Writer(view, function)
        return function

    return register


def endings(kind: type) -> tuple[str, ...]:
    """The endings of the files that a result class is saved as."""
    return tuple(ending for ending, known in WRITERS.items() if hasattr(kind, known.view))


def write(result: object, path: str | os.PathLike[str]) -> Path:
    """Write a result in the format of the file's ending, all of it or nothing; returns the path."""
    known = WRITERS[file_kind(path, endings(type(result)))]
    return write_whole(path, known.to_bytes(getattr(result, known.view)()))


@writer(".json", "to_dict")
def _json(data: Mapping[str, Any]) -> bytes:
    return to_json(data)


@writer(".csv", "records")
def _csv(rows: Sequence[Record]) -> bytes:
    file = io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    columns = columns_of(rows)
    lines.writerow(columns)
    lines.writerows(zip(*(map(_cell, values) for values in columns.values()), strict=True))
    return file.getvalue().encode("utf-8", "backslashreplace")


def _cell(value: Any) -> Any:
    """An empty cell where a value is not known."""
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else value


@writer(".parquet", "records")
def _parquet(rows: Sequence[Record]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    columns = {str(name): [_utf8(value) for value in values] for name, values in columns_of(rows).items()}
    pq.write_table(pa.table(columns), file, compression="zstd")
    return file.getvalue()


def _utf8(value: Any) -> Any:
    """Lone surrogates are escaped: UTF-8 has none."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def columns_of(rows: Sequence[Record]) -> dict[Any, list[Any]]:
    """Rows by column; None where a row lacks one."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


@writer(".html", "page")
def _html(page: str) -> bytes:
    return page.encode()


@writer(".png", "figure")
def _png(figure: "Figure") -> bytes:
    return _picture(figure, "png")


@writer(".svg", "figure")
def _svg(figure: "Figure") -> bytes:
    return _picture(figure, "svg")


@writer(".pdf", "figure")
def _pdf(figure: "Figure") -> bytes:
    return _picture(figure, "pdf")


def _picture(figure: "Figure", kind: str) -> bytes:
    from looprop.display.figures import to_bytes

    return to_bytes(figure, kind)

"""What results are saved as: one table of writers by file ending.

A result class has views: `to_dict` (plain data), `records` (rows of a table), `page` (HTML) and `figure` (matplotlib).
A class that has a view is saved in every format that is made of it, so that a new format is one function of a view:
`WRITERS[".txt"] = Writer("records", function)`.
"""

import csv
import io
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from looprop.files import file_kind, to_json, write_whole

Record = Mapping[Any, Any]
"""One row of a table: plain values by the names of their columns."""


@dataclass(frozen=True)
class Writer:
    """How the files of one ending are made. view: the method of a result whose value `to_bytes` takes."""

    view: Literal["to_dict", "records", "page", "figure"]
    to_bytes: Callable[[Any], bytes]


def endings(kind: type) -> tuple[str, ...]:
    """The endings of the files that a result class is saved as."""
    return tuple(ending for ending, known in WRITERS.items() if hasattr(kind, known.view))


def write(result: object, path: str | os.PathLike[str]) -> Path:
    """Write a result in the format of the file's ending, all of it or nothing; returns the path."""
    known = WRITERS[file_kind(path, endings(type(result)))]
    return write_whole(path, known.to_bytes(getattr(result, known.view)()))


def columns_of(rows: Sequence[Record]) -> dict[Any, list[Any]]:
    """Rows by column; None where a row lacks one."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def to_csv(rows: Sequence[Record], columns: Sequence[Any] = ()) -> bytes:
    """Rows as CSV, by default with all of their columns: a cell is empty where a value is not known."""
    file, names = io.StringIO(), columns or list(columns_of(rows))
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(names)
    lines.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return file.getvalue().encode("utf-8", "backslashreplace")


def _cell(value: Any) -> Any:
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else value


def to_parquet(rows: Sequence[Record]) -> bytes:
    """Rows as Parquet. Lone surrogates are escaped: UTF-8 has none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def text(value: Any) -> Any:
        return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value

    file = io.BytesIO()
    columns = {str(name): list(map(text, values)) for name, values in columns_of(rows).items()}
    pq.write_table(pa.table(columns), file, compression="zstd")
    return file.getvalue()


def _to_picture(figure: Any, kind: str) -> bytes:
    from looprop.display.figures import to_bytes

    return to_bytes(figure, kind)


WRITERS: dict[str, Writer] = {
    ".json": Writer("to_dict", to_json),
    ".csv": Writer("records", to_csv),
    ".parquet": Writer("records", to_parquet),
    ".html": Writer("page", str.encode),
    ".png": Writer("figure", partial(_to_picture, kind="png")),
    ".svg": Writer("figure", partial(_to_picture, kind="svg")),
    ".pdf": Writer("figure", partial(_to_picture, kind="pdf")),
}
"""By file ending."""

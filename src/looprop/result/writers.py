"""What all results do: to plain data and back, to pandas, and to files by one table of writers.

A result class has views: `to_dict` (plain data), `records` (rows of a table), `page` (HTML) and `figure` (matplotlib).
A class that has a view is saved in every format that is made of it.
"""

import csv
import io
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from looprop.files import check_folder_place, check_place, file_kind, read_json, to_json, write_whole
from looprop.result.codec import from_data, to_data

if TYPE_CHECKING:
    import pandas

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


def columns_of(rows: Sequence[Record]) -> dict[Any, list[Any]]:
    """Rows by column; None where a row lacks one."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def to_csv(rows: Sequence[Record], columns: Sequence[Any] = ()) -> bytes:
    """Rows as CSV, by default with all of their columns: a cell is empty where a value is not known."""

    def cell(value: Any) -> Any:
        return "" if value is None or (isinstance(value, float) and math.isnan(value)) else value

    file, names = io.StringIO(), columns or list(columns_of(rows))
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(names)
    lines.writerows([cell(row.get(name)) for name in names] for row in rows)
    return file.getvalue().encode("utf-8", "backslashreplace")


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


class Result:
    """A dataclass that is saved under the name and version of its schema.

    NAMES: of fields that plain data call otherwise. APART: fields kept in files of their own. DERIVED: entries of the
    plain data that are written for readers only.
    """

    SCHEMA: ClassVar[str]
    VERSION: ClassVar[int] = 1
    NAMES: ClassVar[Mapping[str, str]] = {}
    APART: ClassVar[tuple[str, ...]] = ()
    DERIVED: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, with the name and version of the schema; NaN becomes None."""
        return to_data(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], **apart: Any) -> Self:
        """The inverse of `to_dict`; anything else raises a DataError. apart: the fields of `APART`."""
        return from_data(cls, data, **apart)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write one file in the format of its ending, all of it or nothing; returns the path."""
        writer = WRITERS[file_kind(path, endings(type(self)))]
        return write_whole(path, writer.to_bytes(getattr(self, writer.view)()))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote as .json."""
        return cls.from_dict(read_json(path))

    def records(self) -> Sequence[Record]:
        """The rows of its table, as plain values by column: what .csv and .parquet hold."""
        raise NotImplementedError

    def to_pandas(self) -> "pandas.DataFrame":
        """The records as a pandas table; whole numbers of which some are unknown are of type Int64."""
        import pandas

        columns = columns_of(self.records())
        some_unknown = {name for name, values in columns.items() if set(map(type, values)) == {int, type(None)}}
        return pandas.DataFrame(
            {name: pandas.array(v, dtype="Int64") if name in some_unknown else v for name, v in columns.items()}
        )


class FolderResult(Result):
    """A result that is saved as one file, or whole in a folder, which can be loaded again."""

    @classmethod
    def is_one_file(cls, path: str | os.PathLike[str]) -> bool:
        """Is that the name of a single file, and not of a folder?"""
        return Path(path).suffix.lower() in endings(cls)

    @classmethod
    def check_place(cls, path: str | os.PathLike[str]) -> None:
        """Raise now if `save` could not write there later."""
        (check_place if cls.is_one_file(path) else check_folder_place)(path)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write one file if the name has an ending of one. Any other name is a folder, which is made if need be, holds
        everything and can be loaded again. Returns the path.
        """
        if self.is_one_file(path):
            return super().save(path)
        place = Path(path)
        check_folder_place(place)
        place.mkdir(parents=True, exist_ok=True)
        self.fill(place)
        return place

    def fill(self, folder: Path) -> None:
        raise NotImplementedError

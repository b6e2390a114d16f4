"""Texts of one's own: a text file, CSV, TSV, JSON lines or Parquet. Errors name the file, the row and what was
expected.

Rows count from 1; a header is not counted, a blank line is. All but Parquet may be packed with gzip. Packed files are
unpacked no further than the limit: a few kilobytes can hold any number of zeros.
"""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

from looprop.errors import DataError
from looprop.inputs.examples import Dataset, Example, make_dataset
from looprop.limits import UNPACKED_BYTES

Record = dict[str, Any]
USUAL_COLUMNS = ("text", "sentence")
ROW = 64  # a row of a table counts with so many bytes beside its texts: rows without any cost memory, too
ROWS_AT_ONCE = 1024  # at most so many rows of a Parquet file are unpacked at once


def read_texts(
    path: str | Path,
    *,
    column: str | None = None,
    label_column: str | None = None,
    labels: Sequence[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
) -> Dataset:
    """The texts of a file: of a .txt every line that is not blank, of .csv, .tsv, .jsonl and .parquet one column.

    column: the column of the texts; by default "text" or "sentence", whichever is there. label_column: of the labels,
    if they are wanted. labels: the names of the classes, by default the values that occur, sorted; a label must be one
    of them or its number.
    """
    path = Path(path)
    rows: list[tuple[int, str, Any]] = []
    for number, row in read_rows(path):
        column = column or next((usual for usual in USUAL_COLUMNS if usual in row), None)
        if column is None:
            raise DataError(
                f"{path}: which column holds the texts? There is none called 'text' or 'sentence', only "
                f"{', '.join(map(repr, row))}"
            )
        text = _cell(path, number, row, column)
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"{path}: row {number}: column {column!r} must hold a text that is not empty, got {text!r}")
        rows.append((number, text, None if label_column is None else _cell(path, number, row, label_column)))
    if not rows:
        raise DataError(f"{path}: no texts in it; expected at least one row")
    if label_column is not None and labels is None:
        labels = sorted({str(label) for _, _, label in rows})
    names = {name: i for i, name in enumerate(labels or ())}
    examples = [
        Example(str(number), text, None if label_column is None else _label_number(path, number, label, names))
        for number, text, label in rows
    ]
    return make_dataset(path.name, "all", examples, labels=labels or (), limit=limit, seed=seed)


def read_rows(path: str | Path, *, columns: Sequence[str] = ()) -> Iterator[tuple[int, Record]]:
    """The rows of a file with their numbers; `columns` must be in every one of them. A .txt has the column "text"."""
    path = Path(path)
    kind = path.name.removesuffix(".gz").rpartition(".")[2].lower()
    if kind not in READERS:
        known = ", ".join(f".{name}" for name in READERS)
        raise DataError(f"{path}: cannot tell the format from the name; expected one of {known} (.gz)")
    number = 0
    try:
        for number, row in READERS[kind](path):
            for column in columns:
                _cell(path, number, row, column)
            yield number, row
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError, csv.Error) as error:
        expected = f"whole gzip data, got a truncated or broken file ({error})"
        if isinstance(error, UnicodeDecodeError):
            expected = f"UTF-8, got byte 0x{error.object[error.start]:02x}"
        elif isinstance(error, csv.Error):
            expected = f"well-formed CSV ({error})"
        raise DataError(f"{path}: after row {number}: expected {expected}") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def _open(path: Path) -> IO[str]:
    # utf-8-sig drops the mark that some editors put first; newline="" leaves line ends in quoted fields alone
    if path.suffix.lower() == ".gz":
        return io.TextIOWrapper(io.BufferedReader(Unpacked(path)), encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _text_rows(path: Path) -> Iterator[tuple[int, Record]]:
    with _open(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, {"text": line.rstrip("\r\n")}


def _table_rows(path: Path, **form: Any) -> Iterator[tuple[int, Record]]:
    with _open(path) as file:
        lines = csv.reader(file, **form)
        header = next(lines, [])
        if len(set(header)) != len(header):
            raise DataError(f"{path}: expected a header with different names, got {', '.join(header)}")
        expected = f"expected {len(header)} fields ({', '.join(header)})"
        for number, fields in enumerate(lines, 1):
            if fields and len(fields) != len(header):
                raise DataError(f"{path}: row {number}: {expected}, got {len(fields)}")
            if fields:
                yield number, dict(zip(header, fields, strict=True))


def _json_rows(path: Path) -> Iterator[tuple[int, Record]]:
    with _open(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            got = f"got {line.strip()[:60]!r}"
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:  # broken, or numbers or nesting without end
                raise DataError(f"{path}: row {number}: expected a JSON object on one line, {got} ({error})") from error
            if not isinstance(row, dict):
                raise DataError(f"{path}: row {number}: expected a JSON object, {got}")
            yield number, row


def _parquet_rows(path: Path) -> Iterator[tuple[int, Record]]:
    import pyarrow

    try:
        yield from enumerate(parquet_rows(path), 1)
    except (pyarrow.ArrowException, ValueError, OverflowError) as error:  # dates of the year 200,000, broken Unicode
        if isinstance(error, DataError | UnicodeDecodeError):
            raise
        raise DataError(f"{path}: expected a Parquet file ({error})") from error


READERS: dict[str, Callable[[Path], Iterator[tuple[int, Record]]]] = {
    "txt": _text_rows,
    "csv": partial(_table_rows, strict=True),
    # As GLUE has it: a quotation mark in a .tsv is a character like others.
    "tsv": partial(_table_rows, delimiter="\t", quoting=csv.QUOTE_NONE),
    "jsonl": _json_rows,
    "parquet": _parquet_rows,
}


def _cell(path: Path, number: int, row: Record, column: str) -> Any:
    if column not in row:
        got = ", ".join(map(repr, row)) or "none"
        raise DataError(f"{path}: row {number}: expected a column {column!r}, got {got}")
    return row[column]


def _label_number(path: Path, number: int, label: Any, names: dict[str, int]) -> int:
    known = {**{str(i): i for i in names.values()}, **names}
    if str(label) not in known:
        allowed = ", ".join(f"{name!r} or {i}" for name, i in names.items())
        raise DataError(f"{path}: row {number}: unknown label {label!r}; expected {allowed}")
    return known[str(label)]


class Unpacked(io.RawIOBase):
    """The bytes of a gzip file, which raises where they become too many."""

    def __init__(self, path: Path) -> None:
        self.path, self.count = path, 0
        self.file = gzip.open(path)  # noqa: SIM115 - closed with this

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self.file.readinto(buffer)
        self.count += read
        check_unpacked(self.path, self.count)
        return read

    def close(self) -> None:
        self.file.close()
        super().close()


def check_unpacked(path: Path, count: int) -> None:
    UNPACKED_BYTES.check(count, f"{path} unpacks to too much", DataError)


def parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file: of every column that holds single values.

    One value of a dictionary may stand in any number of rows: as many are unpacked at once as stay within the limit
    even if each is as large as the largest column.
    """
    import pyarrow.parquet
    import pyarrow.types

    with pyarrow.parquet.ParquetFile(path) as file:
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        chunks = [group.column(j).total_uncompressed_size for group in groups for j in range(group.num_columns)]
        check_unpacked(path, sum(chunks))
        bound = UNPACKED_BYTES.value
        at_once = ROWS_AT_ONCE if bound is None else max(1, min(ROWS_AT_ONCE, bound // max([1, *chunks])))
        flat = [field.name for field in file.schema_arrow if not pyarrow.types.is_nested(field.type)]
        count = 0
        for batch in file.iter_batches(batch_size=at_once, columns=flat):
            for row in batch.to_pylist():
                count += ROW + sum(len(value) for value in row.values() if isinstance(value, str | bytes))
                check_unpacked(path, count)
                yield row

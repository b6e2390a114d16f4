"""Texts of one's own: a text file, CSV, TSV, JSON lines or Parquet. Errors name the file, the row and what was
expected.

Rows count from 1; a header is not counted, a blank line is. All but Parquet may be packed with gzip.
"""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from looprop.errors import DataError
from looprop.inputs.examples import Dataset, Example, make_dataset
from looprop.inputs.unpacking import Unpacked, parquet_rows

Record = dict[str, Any]
USUAL_COLUMNS = ("text", "sentence")


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

    column: the column of the texts; by default "text" or "sentence", whichever is there.
    label_column: the column of the labels, if they are wanted.
    labels: the names of the classes; a label must be one of them or its number. By default the values that occur,
        sorted.
    """
    path = Path(path)
    rows: list[tuple[int, str, Any]] = []
    for number, row in read_rows(path):
        column = column or _usual_column(path, row)
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
    """The rows of a file with their numbers; `columns` must be in every one of them. A .txt
    has the one column "text".
    """
    path = Path(path)
    kind = path.name.removesuffix(".gz").rpartition(".")[2].lower()
    if kind not in READERS:
        raise DataError(
            f"{path}: cannot tell the format from the name; expected one of "
            f"{', '.join('.' + name for name in READERS)} (.gz)"
        )
    number = 0
    try:
        for number, row in READERS[kind](path):
            for column in columns:
                _cell(path, number, row, column)
            yield number, row
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{path}: after row {number}: expected whole gzip data, got a truncated or broken file ({error})"
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: after row {number}: expected UTF-8, got byte 0x{error.object[error.start]:02x}"
        ) from error
    except csv.Error as error:
        raise DataError(f"{path}: after row {number}: expected well-formed CSV ({error})") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def _open(path: Path) -> IO[str]:
    # utf-8-sig drops the mark that some editors put at the beginning; newline="" leaves line ends in quoted fields
    # alone
    if path.suffix.lower() == ".gz":
        return io.TextIOWrapper(io.BufferedReader(Unpacked(path)), encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _text_rows(path: Path) -> Iterator[tuple[int, Record]]:
    with _open(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, {"text": line.rstrip("\r\n")}


def _csv_rows(path: Path) -> Iterator[tuple[int, Record]]:
    with _open(path) as file:
        yield from _table(path, csv.reader(file, strict=True))


def _tsv_rows(path: Path) -> Iterator[tuple[int, Record]]:
    with _open(path) as file:  # as GLUE has it: a quotation mark in a .tsv is a character like others
        yield from _table(path, csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def _table(path: Path, lines: Iterator[list[str]]) -> Iterator[tuple[int, Record]]:
    header = next(lines, [])
    if len(set(header)) != len(header):
        raise DataError(f"{path}: expected a header with different names, got {', '.join(header)}")
    for number, fields in enumerate(lines, 1):
        if not fields:
            continue
        if len(fields) != len(header):
            raise DataError(
                f"{path}: row {number}: expected {len(header)} fields ({', '.join(header)}), got {len(fields)}"
            )
        yield number, dict(zip(header, fields, strict=True))


def _json_rows(path: Path) -> Iterator[tuple[int, Record]]:
    with _open(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:  # broken, or numbers or nesting without end
                raise DataError(
                    f"{path}: row {number}: expected a JSON object on one line, got {line.strip()[:60]!r} ({error})"
                ) from error
            if not isinstance(row, dict):
                raise DataError(f"{path}: row {number}: expected a JSON object, got {line.strip()[:60]!r}")
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
    "csv": _csv_rows,
    "tsv": _tsv_rows,
    "jsonl": _json_rows,
    "parquet": _parquet_rows,
}


def _cell(path: Path, number: int, row: Record, column: str) -> Any:
    if column not in row:
        raise DataError(
            f"{path}: row {number}: expected a column {column!r}, got {', '.join(map(repr, row)) or 'none'}"
        )
    return row[column]


def _usual_column(path: Path, row: Record) -> str:
    for column in USUAL_COLUMNS:
        if column in row:
            return column
    raise DataError(
        f"{path}: which column holds the texts? There is none called 'text' or 'sentence', only "
        f"{', '.join(map(repr, row))}"
    )


def _label_number(path: Path, number: int, label: Any, names: dict[str, int]) -> int:
    known = {**{str(i): i for i in names.values()}, **names}
    if str(label) not in known:
        allowed = ", ".join(f"{name!r} or {i}" for name, i in names.items())
        raise DataError(f"{path}: row {number}: unknown label {label!r}; expected {allowed}")
    return known[str(label)]

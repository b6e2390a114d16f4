"""Packed files that unpack to more than anybody wants: found out on the way, and the limit can be moved."""

import gzip
import struct
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from looprop.errors import DataError
from looprop.inputs import load_mnist, read_texts
from looprop.result import Explanation

BOUND = 1_000_000


@pytest.fixture(autouse=True)
def _bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPROP_MAX_UNPACKED_BYTES", str(BOUND))


def _dictionary(path: Path, text: str, rows: int) -> Path:
    """A column in which one value of a dictionary stands in every row."""
    column = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * rows, pyarrow.int32()), [text])
    pyarrow.parquet.write_table(pyarrow.table({"text": column}), path)
    return path


@pytest.mark.parametrize(
    ("name", "start", "again"),
    [
        ("a.txt.gz", b"", b"good film\n"),
        ("a.txt.gz", b"", b"0"),
        ("a.csv.gz", b"text\n", b"good film\n"),
        ("a.tsv.gz", b"text\n", b"good film\n"),
        ("a.jsonl.gz", b"", b'{"text": "good film"}\n'),
        ("a.jsonl.gz", b'{"text": "', b"0"),
    ],
)
def test_gzip(tmp_path: Path, name: str, start: bytes, again: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(start + again * (20 * BOUND // len(again))))
    assert path.stat().st_size < BOUND / 5
    with pytest.raises(DataError, match="LOOPROP_MAX_UNPACKED_BYTES"):
        read_texts(path)


def test_gzip_up_to_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"good film\n" * (BOUND // 10)))
    assert len(read_texts(path)) == BOUND // 10
    path.write_bytes(gzip.compress(b"good film\n" * (BOUND // 10) + b"!"))
    with pytest.raises(DataError, match=r"unpacks to too much: 1,000,001 bytes.*LOOPROP_MAX_UNPACKED_BYTES"):
        read_texts(path)
    monkeypatch.setenv("LOOPROP_MAX_UNPACKED_BYTES", str(2 * BOUND))
    assert len(read_texts(path)) == BOUND // 10 + 1


def test_digits(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    content = struct.pack(">4I", 0x0803, 60_000, 28, 28) + bytes(2 * BOUND)
    (tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(content))
    with pytest.raises(DataError, match="LOOPROP_MAX_UNPACKED_BYTES"):
        load_mnist(folder=tmp_path)


@pytest.mark.parametrize(("text", "rows"), [("x" * 100_000, 100_000), ("a", 100_000), ("x" * 900_000, 2)])
def test_a_dictionary_in_parquet(tmp_path: Path, text: str, rows: int) -> None:
    path = _dictionary(tmp_path / "a.parquet", text, rows)
    with pytest.raises(DataError, match="LOOPROP_MAX_UNPACKED_BYTES"):
        read_texts(path)


def test_parquet_that_says_its_size(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": ["0" * (2 * BOUND)]}), path, use_dictionary=False)
    with pytest.raises(DataError, match="LOOPROP_MAX_UNPACKED_BYTES"):
        read_texts(path)


def test_parquet_within_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rows = [{"text": f"text {i}", "more": [i, i], "label": i % 2} for i in range(3000)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    assert read_texts(path, label_column="label").texts == [row["text"] for row in rows]


@pytest.mark.parametrize("content", ["7" * 5000, "[" * 100_000, '{"text": ' + "7" * 5000 + "}", '{"a":' * 100_000])
def test_json_without_end(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "good"}\n' + content, encoding="utf-8")
    with pytest.raises(DataError, match="row 2: expected a JSON object"):
        read_texts(path)
    (tmp_path / "a.json").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=r"is not whole JSON|nested too deeply"):
        Explanation.load(tmp_path / "a.json")

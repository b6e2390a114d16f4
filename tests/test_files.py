"""Texts of one's own: every format gives the same texts, and every broken file an error with
file, row and expectation.
"""

import gzip
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from looprop.errors import DataError
from looprop.inputs.files import read_rows, read_texts

TEXTS = ["Plain.", 'With "quotes", commas', "Ελληνικά и emoji 🎬"]
LABELS = ["good", "bad", "good"]
STARS = {"label_column": "label", "labels": ["good", "bad"]}


def written(folder: Path, name: str) -> Path:
    """The texts and labels above in a file of the format that the name says, texts in column `review`."""
    path = folder / name
    kind = name.removesuffix(".gz").rpartition(".")[2]
    rows = [{"review": text, "stars": label} for text, label in zip(TEXTS, LABELS, strict=True)]
    if kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        return path
    content = {
        "txt": "\n".join(TEXTS),
        "csv": "review,stars\n"
        + "".join('"{}",{}\n'.format(row["review"].replace('"', '""'), row["stars"]) for row in rows),
        "tsv": "review\tstars\n" + "".join(f"{row['review']}\t{row['stars']}\n" for row in rows),
        "jsonl": "".join(json.dumps(row) + "\n" for row in rows),
    }[kind].encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet", "a.csv.gz", "a.tsv.gz", "a.jsonl.gz"])
def test_every_format_gives_the_same(tmp_path: Path, name: str) -> None:
    data = read_texts(written(tmp_path, name), column="review", label_column="stars")
    assert data.texts == TEXTS
    assert data.labels == ("bad", "good")
    assert [example.label for example in data] == [1, 0, 1]
    named = read_texts(tmp_path / name, column="review", label_column="stars", labels=["good", "bad"])
    assert [example.label for example in named] == [0, 1, 0]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_text_files(tmp_path: Path, name: str) -> None:
    data = read_texts(written(tmp_path, name))
    assert data.texts == TEXTS
    assert {example.label for example in data} == {None}


def test_blank_lines_marks_and_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufefffirst\r\n\r\n  \r\nsecond".encode())
    data = read_texts(path)
    assert data.texts == ["first", "second"]
    assert [example.id for example in data] == ["1", "4"]


def test_usual_columns_need_no_name(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,sentence\n1,hello\n", encoding="utf-8")
    assert read_texts(path).texts == ["hello"]


def test_labels_may_be_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "y": 1}\n{"text": "b", "y": "negative"}\n', encoding="utf-8")
    data = read_texts(path, label_column="y", labels=["negative", "positive"])
    assert [example.label for example in data] == [1, 0]


def test_a_limit_draws(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n".join(f"text {i}" for i in range(50)), encoding="utf-8")
    data = read_texts(path, limit=7, seed=2)
    assert (len(data), data.total, data.title) == (7, 50, "a.txt/all (subset: 7 of 50)")


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.csv", "title,body\nx,y\n", {}, r"There is none called 'text' or 'sentence', only 'title', 'body'"),
        ("a.csv", "title,body\nx,y\n", {"column": "review"}, r"row 1: expected a column 'review', got 'title', 'body'"),
        (
            "a.csv",
            "text,label\nx,good\ny,awful\n",
            STARS,
            r"row 2: unknown label 'awful'; expected 'good' or 0, 'bad' or 1",
        ),
        ("a.csv", "text,label\nx,1\ny\n", {}, r"row 2: expected 2 fields \(text, label\), got 1"),
        ("a.csv", "text,text\nx,1\n", {}, r"expected a header with different names, got text, text"),
        ("a.csv", 'text\nfirst\n"never closed\n', {}, r"after row 1: expected well-formed CSV"),
        ("a.csv", "text\nx\n  \n", {}, r"row 2: column 'text' must hold a text that is not empty, got '  '"),
        ("a.csv", "text\n", {}, r"no texts in it; expected at least one row"),
        ("a.csv", "", {}, r"no texts in it"),
        ("a.txt", "\n\n", {}, r"no texts in it"),
        ("a.jsonl", '{"text": "a"}\n{"text": \n', {}, r"row 2: expected a JSON object on one line, got '\{\"text\":'"),
        ("a.jsonl", '{"text": "a"}\n["b"]\n', {}, r"row 2: expected a JSON object, got"),
        ("a.jsonl", '{"text": "a"}\n{"other": "b"}\n', {}, r"row 2: expected a column 'text', got 'other'"),
        (
            "a.jsonl",
            '{"text": "a"}\n{"text": 3}\n',
            {},
            r"row 2: column 'text' must hold a text that is not empty, got 3",
        ),
        ("a.jsonl", "[" * 100_000, {}, r"row 1: expected a JSON object"),
        ("a.parquet", "no parquet", {}, r"expected a Parquet file"),
        ("a.xlsx", "", {}, r"cannot tell the format .* expected one of \.txt, \.csv, \.tsv, \.jsonl, \.parquet"),
        ("noextension", "", {}, r"cannot tell the format"),
    ],
)
def test_broken_files(tmp_path: Path, name: str, content: str, options: dict[str, object], message: str) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=rf"{name}: .*{message}"):
        read_texts(path, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.jsonl.gz", "a.parquet"])
def test_missing_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=f"{name}: no such file"):
        read_texts(tmp_path / name)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").mkdir()
    with pytest.raises(DataError, match=r"a\.txt: cannot be read"):
        read_texts(tmp_path / "a.txt")


def test_other_encodings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"caf\xe9 noir\n")
    with pytest.raises(DataError, match=r"a\.txt: after row 0: expected UTF-8, got byte 0xe9"):
        read_texts(path)


def test_not_gzip(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_text('{"text": "plain"}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.jsonl\.gz: after row 0: expected whole gzip data"):
        read_texts(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_truncated_gzip_names_the_last_whole_row(tmp_path: Path, share: float) -> None:
    lines = [json.dumps({"text": f"text {i * i * 7919}"}) + "\n" for i in range(20_000)]
    packed = gzip.compress("".join(lines).encode())
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(packed[: int(len(packed) * share)])
    last = 0
    with pytest.raises(DataError, match=r"a\.jsonl\.gz: after row \d+: expected whole gzip data") as caught:
        for last, _ in read_rows(path):  # noqa: B007
            pass
    assert f"after row {last}:" in str(caught.value)
    assert 0 < last < len(lines)


@settings(deadline=None)  # writes files
@given(
    st.lists(
        st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip), min_size=1, max_size=5
    )
)
def test_any_text_survives_json_lines(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    path = tmp_path_factory.mktemp("json") / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    assert read_texts(path).texts == texts

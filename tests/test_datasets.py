"""Data sets by name: made-up folders for the form and the errors, the real data for the
counts that their papers state.
"""

import csv
import gzip
import json
import struct
import sys
import types
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from looprop.errors import DataError, InputError, UnknownNameError
from looprop.inputs import demo_sentences, load_dataset, load_mnist, read_data
from looprop.inputs.examples import draw
from looprop.models.origin import cache_folder, model_folder

PHRASES = [('"quoted" , and tabs are not allowed here ', 1), ("half a 'quote\" ", 0), ("dull . ", 0)]
SENTENCES = [("Comma, and\nline end", 1), ('A "quote"', 0)]
REVIEWS = [("Bad.<br />Very bad.", 0), ("Good", 1), ("Nähe", 1), ("Fine", 1)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in the layout of the real one, with a few rows in each file."""
    (tmp_path / "sst2" / "sentences").mkdir(parents=True)
    (tmp_path / "imdb").mkdir()
    (tmp_path / "mnist").mkdir()
    lines = ["sentence\tlabel", *(f"{text}\t{label}" for text, label in PHRASES)]
    (tmp_path / "sst2" / "dev.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with (tmp_path / "sst2" / "sentences" / "dev.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("label", "sentence"), *((label, text) for text, label in SENTENCES)])
    with gzip.open(tmp_path / "imdb" / "test.jsonl.gz", "wt", encoding="utf-8") as packed:
        packed.writelines(json.dumps({"id": "x", "text": text, "label": label}) + "\n" for text, label in REVIEWS)
    write_mnist(tmp_path / "mnist", np.arange(5 * 28 * 28) % 256, [3, 1, 4, 1, 5])
    return tmp_path


def write_mnist(folder: Path, pixels: np.ndarray, labels: list[int]) -> None:
    images = struct.pack(">4I", 0x803, len(labels), 28, 28) + pixels.astype(np.uint8).tobytes()
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(
        gzip.compress(struct.pack(">2I", 0x801, len(labels)) + bytes(labels))
    )


@pytest.mark.parametrize(
    ("name", "form", "rows"),
    [
        ("sst2", "glue", [(text.strip(), label) for text, label in PHRASES]),
        ("sst2", "sentences", SENTENCES),
        ("imdb", "glue", REVIEWS),
    ],
)
def test_rows_come_as_written(folder: Path, name: str, form: str, rows: list[tuple[str, int]]) -> None:
    data = load_dataset(name, form=form, folder=folder)
    assert [(example.text, example.label) for example in data] == rows
    assert data.labels == ("negative", "positive")
    assert (data.total, data.subset) == (len(rows), False)
    assert len({example.id for example in data}) == len(rows)


def test_the_folder_may_come_from_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPROP_DATA", str(folder))
    assert load_dataset("sst2") == load_dataset("sst2", folder=folder)
    assert load_mnist().hash == load_mnist(folder=folder).hash


def test_hash_follows_text_label_and_order(folder: Path) -> None:
    path = folder / "sst2" / "dev.tsv"
    hashes = set()
    for rows in ("a b\t1\nc\t0", "a b\t0\nc\t0", "a\t1\nb c\t0", "c\t0\na b\t1"):
        path.write_text(f"sentence\tlabel\n{rows}\n", encoding="utf-8")
        hashes.add(load_dataset("sst2", folder=folder).hash)
    assert len(hashes) == 4


def test_draw_is_nested_seeded_and_in_order() -> None:
    ids = [f"sst2/dev/{i}" for i in range(200)]
    draws = {limit: draw(ids, limit=limit, seed=3) for limit in (1, 10, 100, 200, 500)}
    for limit, chosen in draws.items():
        assert len(chosen) == min(limit, 200)
        assert chosen == sorted(set(chosen))
        assert set(chosen) <= set(draws[500])
    assert set(draws[1]) < set(draws[10]) < set(draws[100])
    assert draw(ids, limit=10, seed=3) != draw(ids, limit=10, seed=4)


def test_draw_is_fair() -> None:
    # Each of 20 ids is in about half of 400 draws of 10; 6 standard deviations of a binomial(400, 1/2) are 60.
    ids = [str(i) for i in range(20)]
    counts = Counter(i for seed in range(400) for i in draw(ids, limit=10, seed=seed))
    assert all(140 <= counts[i] <= 260 for i in range(20))


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "3"])
def test_limit_is_checked(limit: object) -> None:
    with pytest.raises(InputError, match="limit must be an integer >= 1"):
        draw(["a"], limit=limit, seed=0)  # type: ignore[arg-type]


def test_a_subset_says_so(folder: Path) -> None:
    data = load_dataset("imdb", limit=2, folder=folder)
    assert (len(data), data.total, data.subset) == (2, 4, True)
    assert data.title == "imdb/test (subset: 2 of 4)"
    assert data.hash != load_dataset("imdb", folder=folder).hash


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "sst"}, "did you mean 'sst2'"),
        ({"name": "imdb", "split": "dev"}, "split of imdb 'dev'"),
        ({"name": "sst2", "form": "sentence"}, "did you mean 'sentences'"),
    ],
)
def test_unknown_names(folder: Path, arguments: dict[str, str], message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        load_dataset(**arguments, folder=folder)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("sentence\tlabel\ngood\t1\nbad\t2\n", r"dev\.tsv: row 2: unknown label '2'; expected 0 \(negative\) or 1"),
        ("sentence\tlabel\n \t1\n", r"dev\.tsv: row 1: expected a text that is not empty"),
        ("text\tlabel\ngood\t1\n", r"dev\.tsv: row 1: expected a column 'sentence', got 'text', 'label'"),
        ("sentence\tlabel\ngood\n", r"dev\.tsv: row 1: expected 2 fields \(sentence, label\), got 1"),
        ("sentence\tlabel\n", r"sst2/dev: no examples"),
        ("", r"sst2/dev: no examples"),
    ],
)
def test_broken_tables(folder: Path, content: str, message: str) -> None:
    (folder / "sst2" / "dev.tsv").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        load_dataset("sst2", folder=folder)


def test_missing_file_and_folder(folder: Path) -> None:
    with pytest.raises(DataError, match=r"train\.tsv: no such file"):
        load_dataset("sst2", split="train", folder=folder)
    with pytest.raises(DataError, match=r"nowhere: no such folder; .*LOOPROP_DATA"):
        load_dataset("sst2", folder=folder / "nowhere")
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz: no such file"):
        load_mnist("train", folder=folder)


def test_mnist_of_a_folder(folder: Path) -> None:
    digits = load_mnist(folder=folder)
    assert digits.images.shape == (5, 28, 28)
    assert [int(digits.images[1, 0, x]) for x in range(3)] == [(784 + x) % 256 for x in range(3)]
    assert digits.labels.tolist() == [3, 1, 4, 1, 5]
    part = load_mnist(limit=2, seed=1, folder=folder)
    assert (len(part), part.total, part.subset) == (2, 5, True)


def test_broken_mnist(folder: Path) -> None:
    path = folder / "mnist" / "t10k-images-idx3-ubyte.gz"
    whole = path.read_bytes()
    for content, message in [
        (whole[: len(whole) // 2], "truncated or broken"),
        (b"not gzip", "truncated or broken"),
        (gzip.compress(gzip.decompress(whole)[:-1]), "expected 3920 bytes for shape .5, 28, 28., got 3919"),
        (
            gzip.compress(struct.pack(">4I", 0x801, 5, 28, 28)),
            "expected an IDX file with magic 0x0803, got magic 0x0801",
        ),
        (gzip.compress(b"ab"), "got 2 bytes"),
    ]:
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"t10k-images-idx3-ubyte\.gz: .*{message}"):
            load_mnist(folder=folder)
    write_mnist(folder / "mnist", np.zeros(784), [10])
    with pytest.raises(DataError, match=r"labels.*: row 1: expected a label from 0 to 9, got 10"):
        load_mnist(folder=folder)
    write_mnist(folder / "mnist", np.zeros(0), [])
    with pytest.raises(DataError, match="no images"):
        load_mnist(folder=folder)


def hub(monkeypatch: pytest.MonkeyPatch, rows: object) -> list[tuple[str, str]]:
    """Puts a hub in place that answers with `rows`, or raises them; returns what it was asked."""
    asked: list[tuple[str, str]] = []

    def answer(repository: str, *, split: str) -> object:
        asked.append((repository, split))
        if isinstance(rows, Exception):
            raise rows
        return rows

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=answer))
    monkeypatch.delenv("LOOPROP_DATA", raising=False)
    return asked


def test_the_hub_gives_the_same_as_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = hub(monkeypatch, [{"idx": i, "sentence": text, "label": label} for i, (text, label) in enumerate(PHRASES)])
    assert load_dataset("sst2") == load_dataset("sst2", folder=folder)
    assert asked == [("stanfordnlp/sst2", "validation")]


def test_hub_rows_without_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    hub(monkeypatch, [{"sentence": "who knows", "label": -1}])
    assert load_dataset("sst2", split="test").examples[0].label is None


def test_mnist_of_the_hub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = load_mnist(folder=folder)
    asked = hub(monkeypatch, {"image": list(ours.images), "label": ours.labels.tolist()})
    assert load_mnist().hash == ours.hash
    assert asked == [("ylecun/mnist", "test")]


def test_without_folder_and_hub_both_ways_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    hub(monkeypatch, ConnectionError("no route\nto the hub"))
    with pytest.raises(
        DataError, match=r"stanfordnlp/imdb \(ConnectionError: no route\); .*LOOPROP_DATA, or go online with .*datasets"
    ):
        load_dataset("imdb")
    monkeypatch.setitem(sys.modules, "datasets", None)  # not installed
    with pytest.raises(DataError, match=r"LOOPROP_DATA, or go online with .*datasets"):
        load_mnist()
    with pytest.raises(DataError, match=r"not on the hub; .*LOOPROP_DATA"):
        load_dataset("sst2", form="sentences")


def test_data_by_name_or_file(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPROP_DATA", str(folder))
    assert read_data("sst2") == load_dataset("sst2")
    assert read_data("imdb", split="test", limit=1, seed=3) == load_dataset("imdb", split="test", limit=1, seed=3)
    own = tmp_path / "own.csv"
    own.write_text("text,review\na,b\nc,d\n", encoding="utf-8")
    assert read_data(own, column="review").texts == ["b", "d"]
    assert read_data(str(own), limit=1).title == "own.csv/all (subset: 1 of 2)"
    assert read_data("demo").texts == demo_sentences().texts
    drawn = read_data("demo", limit=3, seed=1)
    assert [e.id for e in drawn] == [e.id for i, e in enumerate(demo_sentences()) if i in drawn_positions(3, seed=1)]


def drawn_positions(limit: int, *, seed: int) -> list[int]:
    return draw([example.id for example in demo_sentences()], limit=limit, seed=seed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"data": "sst3"}, r"unknown data set 'sst3'; did you mean 'sst2'"),
        ({"data": "xyzzy", "also": ("mnist",)}, r"known: demo, imdb, mnist, sst2"),
        ({"data": "nowhere.txt"}, r"nowhere\.txt: no such file"),
        ({"data": "nowhere.txt", "split": "dev"}, r"^split is for data sets by name"),
        ({"data": "demo", "split": "dev"}, r"^split is for sst2 and imdb: the demo sentences have none"),
        ({"data": "sst2", "column": "text"}, r"^column is for files"),
        ({"data": "demo", "limit": 0}, r"limit must be an integer >= 1"),
    ],
)
def test_data_that_cannot_be_read(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((InputError, UnknownNameError), match=message):
        read_data(**arguments)


def test_cache_of_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPROP_CACHE", str(tmp_path / "here"))
    assert model_folder("mpnet-sst2") == tmp_path / "here" / "models" / "mpnet-sst2"
    monkeypatch.delenv("LOOPROP_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "looprop"


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "split", "form", "negative", "positive"),
    [
        ("sst2", "train", "glue", 29_780, 37_569),
        ("sst2", "dev", "glue", 428, 444),
        ("sst2", "test", "glue", 912, 909),
        ("sst2", "train", "sentences", 3_310, 3_610),
        ("sst2", "dev", "sentences", 428, 444),
        ("sst2", "test", "sentences", 912, 909),
        ("imdb", "train", "glue", 12_500, 12_500),
        ("imdb", "test", "glue", 12_500, 12_500),
    ],
)
def test_counts_of_the_real_sets(
    data_folder: Path, name: str, split: str, form: str, negative: int, positive: int
) -> None:
    data = load_dataset(name, split=split, form=form, folder=data_folder)
    assert Counter(example.label for example in data) == {0: negative, 1: positive}


@pytest.mark.data
def test_counts_of_the_real_mnist(data_folder: Path) -> None:
    digits = load_mnist("test", folder=data_folder)
    assert np.bincount(digits.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert load_mnist("train", folder=data_folder).images.shape == (60_000, 28, 28)

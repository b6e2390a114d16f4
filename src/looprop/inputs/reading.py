"""Texts by the name of a data set or of a file."""

from collections.abc import Sequence
from pathlib import Path

from looprop.errors import InputError, UnknownNameError
from looprop.inputs.datasets import SPLITS, load_dataset
from looprop.inputs.demo import demo_sentences
from looprop.inputs.examples import Dataset, make_dataset
from looprop.inputs.files import read_texts

DEMO = "demo"


def read_data(
    data: str | Path,
    *,
    split: str | None = None,
    column: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    also: Sequence[str] = (),
) -> Dataset:
    """A data set by name, or the texts of a file (.txt, .csv, .tsv, .jsonl, .parquet); `limit` examples of it drawn by
    `seed`.

    data: "demo", "sst2", "imdb", or a file. split: the part of a named data set, as in `load_dataset`.
    column: the column of the texts in a file, as in `read_texts`.
    also: what the caller takes beside these, for the error of an unknown name.

    >>> read_data("demo", limit=2).title
    'demo/all (subset: 2 of 24)'
    """
    check_options(data, split=split, column=column)
    if is_file(data):
        return read_texts(data, column=column, limit=limit, seed=seed)
    name = str(data)
    if name == DEMO:
        whole = demo_sentences()
        return make_dataset(whole.name, whole.split, whole.examples, limit=limit, seed=seed)
    if name not in SPLITS:
        raise UnknownNameError("data set", name, (DEMO, *SPLITS, *also))
    return load_dataset(name, split=split, limit=limit, seed=seed)


def is_file(data: str | Path) -> bool:
    """Whether this names a file, there or not, and no data set."""
    return bool(Path(data).suffix) or Path(data).exists()


def check_options(data: str | Path, *, split: str | None, column: str | None) -> None:
    """Raise for what does not go with the data. The message begins with the name of the option."""
    if split is not None and is_file(data):
        raise InputError("split is for data sets by name, and this is a file")
    if column is not None and not is_file(data):
        raise InputError("column is for files, and this is the name of a data set")
    if split is not None and str(data) == DEMO:
        raise InputError(f"split is for {' and '.join(SPLITS)}: the demo sentences have none")

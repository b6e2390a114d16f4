"""Data sets by name: SST-2 and IMDB here, MNIST in looprop.inputs.mnist; from a folder or from the hub.

Layout of the folder:

    sst2/{train,dev,test}.tsv               header sentence<TAB>label, no quoting      (the GLUE form)
    sst2/sentences/{train,dev,test}.csv     header label,sentence                      (form="sentences")
    imdb/{train,test}.jsonl.gz              one object with text and label per line
    mnist/*-ubyte.gz                        the original IDX files

Sources: R. Socher et al., "Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank", 2013;
A. Wang et al., "GLUE", 2019; A. L. Maas et al., "Learning Word Vectors for Sentiment Analysis", 2011.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from looprop.errors import DataError, UnknownNameError
from looprop.inputs.examples import Dataset, Example, make_dataset
from looprop.inputs.files import read_rows
from looprop.inputs.mnist import Digits, load_mnist
from looprop.inputs.sources import FOLDER_HINT, HUB, data_folder, hub_rows

__all__ = ["FORMS", "LABELS", "SPLITS", "Digits", "load_dataset", "load_mnist"]

LABELS = ("negative", "positive")
SPLITS = {"sst2": ("dev", "train", "test"), "imdb": ("test", "train")}  # the default first
TEXT_COLUMN = {"sst2": "sentence", "imdb": "text"}
FORMS = ("glue", "sentences")


def load_dataset(
    name: str,
    *,
    split: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    form: str = "glue",
) -> Dataset:
    """The data set `name`, or `limit` examples of it drawn by `seed`.

    split: of sst2 dev (default), train or test; of imdb test (default) or train.
    folder: where the data lie; by default LOOPROP_DATA; where neither is given, the hub through the package `datasets`.
    form: of sst2, "glue" (lower case, tokenised; train holds phrases) or "sentences" (whole sentences in natural case).
    """
    if name not in SPLITS:
        raise UnknownNameError("data set of texts", name, SPLITS)
    split = split or SPLITS[name][0]
    if split not in SPLITS[name]:
        raise UnknownNameError(f"split of {name}", split, SPLITS[name])
    if form not in FORMS:
        raise UnknownNameError("form", form, FORMS)
    if form == "sentences" and name != "sst2":
        raise DataError(f'form="sentences" exists for sst2 only, got {name!r}')
    where = data_folder(folder)
    rows = _hub_rows(name, split, form) if where is None else _folder_rows(where, name, split, form)
    title = "sst2-sentences" if form == "sentences" else name
    examples = [_example(place, f"{title}/{split}/{i}", row, TEXT_COLUMN[name]) for i, (place, row) in enumerate(rows)]
    if not examples:
        raise DataError(f"{title}/{split}: no examples in {where or HUB[name]}; expected at least one row")
    return make_dataset(title, split, examples, labels=LABELS, limit=limit, seed=seed)


def _folder_rows(folder: Path, name: str, split: str, form: str) -> Iterator[tuple[str, dict[str, Any]]]:
    parts = {"imdb": ("imdb", f"{split}.jsonl.gz"), "sst2": ("sst2", f"{split}.tsv")}
    path = folder.joinpath(*parts[name]) if form == "glue" else folder / "sst2" / "sentences" / f"{split}.csv"
    for number, row in read_rows(path, columns=(TEXT_COLUMN[name], "label")):
        yield f"{path}: row {number}", row


def _hub_rows(name: str, split: str, form: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if form == "sentences":
        raise DataError(f"the whole sentences of sst2 are not on the hub; {FOLDER_HINT}")
    for number, row in enumerate(hub_rows(name, split), 1):
        # The hub has no test labels for sst2 and writes -1.
        yield f"{HUB[name]}: row {number}", {**row, "label": None if row["label"] == -1 else row["label"]}


def _example(place: str, identifier: str, row: dict[str, Any], text_column: str) -> Example:
    text, label = row[text_column], row["label"]
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{place}: expected a text that is not empty in column {text_column!r}, got {text!r}")
    if label is not None and str(label) not in ("0", "1"):
        raise DataError(f"{place}: unknown label {label!r}; expected 0 (negative) or 1 (positive)")
    # GLUE's phrases end in a space, which is no part of the text.
    return Example(identifier, text.strip(), None if label is None else int(label))

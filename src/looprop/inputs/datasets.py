"""Texts by the name of a data set, from a folder or from the hub, or of a file. MNIST: looprop.inputs.mnist.

Layout of the folder:

    sst2/{train,dev,test}.tsv               header sentence<TAB>label, no quoting      (the GLUE form)
    sst2/sentences/{train,dev,test}.csv     header label,sentence                      (form="sentences")
    imdb/{train,test}.jsonl.gz              one object with text and label per line
    mnist/*-ubyte.gz                        the original IDX files

Sources: R. Socher et al., "Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank", 2013;
A. Wang et al., "GLUE", 2019; A. L. Maas et al., "Learning Word Vectors for Sentiment Analysis", 2011.
"""

import os
from collections.abc import Iterator, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from looprop.errors import DataError, InputError, UnknownNameError
from looprop.inputs.examples import Dataset, Example, make_dataset
from looprop.inputs.files import read_rows, read_texts
from looprop.naming import one_of

LABELS = ("negative", "positive")
SPLITS = {"sst2": ("dev", "train", "test"), "imdb": ("test", "train")}  # the default first
TEXT_COLUMN = {"sst2": "sentence", "imdb": "text"}
FORMS = ("glue", "sentences")
DEMO = "demo"
HUB = {"sst2": "stanfordnlp/sst2", "imdb": "stanfordnlp/imdb", "mnist": "ylecun/mnist"}
HUB_SPLITS = {"dev": "validation"}
FOLDER_HINT = "give a folder that holds sst2/, imdb/ and mnist/ as `folder` or in the environment variable LOOPROP_DATA"


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

    data: "demo", "sst2", "imdb", or a file. split: the part of a named data set, as in `load_dataset`. column: of the
    texts in a file, as in `read_texts`. also: what the caller takes beside these, for the error of an unknown name.

    >>> read_data("demo", limit=2).title
    'demo/all (subset: 2 of 24)'
    """
    check_options(data, split=split, column=column)
    if is_file(data):
        return read_texts(data, column=column, limit=limit, seed=seed)
    name = str(data)
    if name == DEMO:
        return make_dataset(DEMO, "all", demo_sentences().examples, limit=limit, seed=seed)
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


def demo_sentences() -> Dataset:
    """The 24 demo sentences, without labels: each id begins with what makes it hard (negation, contrast, irony ...).

    >>> len(demo_sentences())
    24
    """
    with as_file(files("looprop") / "assets" / "demo.jsonl") as path:
        found = [Example(row["id"], row["text"]) for _, row in read_rows(path, columns=("id", "text", "kind"))]
    return make_dataset(DEMO, "all", found)


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

    split: of sst2 dev (default), train or test; of imdb test (default) or train. folder: where the data lie; by default
    LOOPROP_DATA; where neither is given, the hub through the package `datasets`. form: of sst2, "glue" (lower case,
    tokenised; train holds phrases) or "sentences" (whole sentences in natural case).
    """
    one_of("data set of texts", name, SPLITS)
    split = one_of(f"split of {name}", split or SPLITS[name][0], SPLITS[name])
    if one_of("form", form, FORMS) == "sentences" and name != "sst2":
        raise DataError(f'form="sentences" exists for sst2 only, got {name!r}')
    where = data_folder(folder)
    rows = _hub_rows(name, split, form) if where is None else _folder_rows(where, name, split, form)
    title = "sst2-sentences" if form == "sentences" else name
    examples = [_example(place, f"{title}/{split}/{i}", row, TEXT_COLUMN[name]) for i, (place, row) in enumerate(rows)]
    if not examples:
        raise DataError(f"{title}/{split}: no examples in {where or HUB[name]}; expected at least one row")
    return make_dataset(title, split, examples, labels=LABELS, limit=limit, seed=seed)


def _folder_rows(folder: Path, name: str, split: str, form: str) -> Iterator[tuple[str, dict[str, Any]]]:
    usual = f"{split}.jsonl.gz" if name == "imdb" else f"{split}.tsv"
    path = folder / name / usual if form == "glue" else folder / "sst2" / "sentences" / f"{split}.csv"
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


def data_folder(folder: str | Path | None = None) -> Path | None:
    """The folder given, else that of LOOPROP_DATA, else None."""
    given = folder or os.environ.get("LOOPROP_DATA")
    if not given:
        return None
    if not (path := Path(given).expanduser()).is_dir():
        raise DataError(f"{path}: no such folder; {FOLDER_HINT}")
    return path


def hub_rows(name: str, split: str) -> Any:
    """The rows of a data set on the hub, through the package `datasets`."""
    try:
        import datasets

        return datasets.load_dataset(HUB[name], split=HUB_SPLITS.get(split, split))
    except Exception as error:  # whatever goes wrong online, the way out is the same
        reason = (str(error).strip() or "no reason given").splitlines()[0]
        raise DataError(
            f"{name}/{split}: no folder was given and the hub did not give {HUB[name]} ({type(error).__name__}: "
            f"{reason}); {FOLDER_HINT}, or go online with the package `datasets` installed"
        ) from error

"""The logits of every set of masked words of short sentences by six fine-tuned models, and the scores of ten methods,
published with normalised AOPC (Edin et al., ACL 2025): files of the folder naopc/ of the data.
"""

import csv
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looprop.errors import DataError
from looprop.inputs.datasets import data_folder

FOLDER = "naopc"
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MaskedSentence:
    """One sentence under one model.

    logits: (2^n, 2) of the negative and the positive class, row k for the sentence in which just those of its n words
        are left whose bit is set in k.
    scores: (n,) of the words, by method; those that were published for another number of words, or
        as NaN, are not there.
    misfits: how many those are. best, worst: the published limits of the area over the curve of the probability of
        the positive class; best_order: the order that was published with the first.
    """

    model: str
    id: int
    text: str
    logits: Floats
    scores: dict[str, Floats]
    misfits: int
    best: float
    worst: float
    best_order: tuple[int, ...]

    @property
    def words(self) -> int:
        """How many words can be masked."""
        return len(self.logits).bit_length() - 1


def maskings_folder(folder: str | Path | None = None) -> Path:
    """The folder of these files."""
    root = data_folder(folder)
    place = None if root is None else root / FOLDER
    if place is None or not place.is_dir():
        raise DataError(
            f"the data of all maskings is a folder {FOLDER}/ (from github.com/JoakimEdin/naopc, results/ and data/): "
            "name the folder that holds it in the environment variable LOOPROP_DATA"
        )
    return place


def masked_models(folder: str | Path | None = None) -> list[str]:
    """The models of which there are files."""
    start = "logits_sst2_"
    found = sorted(path.stem.removeprefix(start) for path in maskings_folder(folder).glob(f"{start}*.parquet"))
    if not found:
        raise DataError(f"{maskings_folder(folder)} holds no file {start}MODEL.parquet")
    return found


def maskings_hash(folder: str | Path | None = None) -> str:
    """What the files hold, as one number."""
    total = hashlib.sha256()
    for path in sorted(maskings_folder(folder).glob("*_sst2*.*")):
        total.update(path.name.encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def read_maskings(model: str, folder: str | Path | None = None) -> list[MaskedSentence]:
    """All sentences of a model."""
    place = maskings_folder(folder)
    texts = {row["id"]: row["text"] for row in _csv(place / "sentences_sst2.csv")}
    limits = {row["id"]: row for row in _rows(place / f"limits_sst2_{model}.parquet")}
    logits, scores = (_by_id(_rows(place / f"{kind}_sst2_{model}.parquet")) for kind in ("logits", "scores"))
    return [_sentence(model, id, texts[id], logits[id], scores.get(id, []), limits[id]) for id in sorted(logits)]


def _sentence(
    model: str, id: int, text: str, logits: list[dict[str, Any]], scores: list[dict[str, Any]], limits: dict[str, Any]
) -> MaskedSentence:
    words = int(limits["number_of_elements"])
    table = np.full((2**words, 2), np.nan)
    for row in logits:
        masked = sum(1 << (word - 1) for word in json.loads(row["word_key"]))  # words are counted from 1
        table[2**words - 1 - masked] = row["negative_logit"], row["positive_logit"]
    if np.isnan(table).any() or len(logits) != len(table):
        raise DataError(f"{model}, sentence {id}: {len(logits)} maskings of {words} words, {2**words} were expected")
    # The first and the last score are those of the special tokens.
    maps = {row["explanation_method"]: np.asarray(row["word_attributions"], dtype=np.float64) for row in scores}
    fitting = {name: own[1:-1] for name, own in maps.items() if len(own) == words + 2 and np.isfinite(own).all()}
    best, worst = float(limits["upper_limit"]), float(limits["lower_limit"])
    order = tuple(int(word) - 1 for word in limits["upper_limit_order"])
    return MaskedSentence(model, id, text, table, fitting, len(maps) - len(fitting), best, worst, order)


def _rows(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    try:
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path}: {error}") from error
    return rows


def _csv(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [{"id": int(row["id"]), "text": row["text"].strip()} for row in csv.DictReader(file)]


def _by_id(rows: Iterable[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(int(row["id"]), []).append(row)
    return found

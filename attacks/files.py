"""Broken and hostile files: data, model folders, run folders, explanations. Nothing but words may come of them."""

import gzip
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
from tests.evaluation.tiny import TEXTS, save_tiny

import looprop
from attacks.verdict import Outcome, WrongError
from looprop.errors import LoopropError
from looprop.inputs import read_texts
from looprop.study import read_run, reproduce

SPEC = "{name: x, kind: texts, question: 'broken?', data: {sst2: {}}, methods: [loo, cp-lrp]}"


@cache
def prepared() -> Path:
    """A folder with a model, texts and a finished run, made once per process."""
    place = Path(tempfile.mkdtemp(prefix="attack-files"))
    save_tiny(place / "model")
    (place / "texts.txt").write_text("\n".join(TEXTS[:3]), encoding="utf-8")
    (place / "spec.yaml").write_text(SPEC, encoding="utf-8")
    _go(place, place / "run")
    return place


def _go(place: Path, out: Path) -> Any:
    return reproduce(
        str(place / "spec.yaml"), model=str(place / "model"), data=str(place / "texts.txt"), out=out, progress=False
    )


def _bytes(dice: np.random.Generator, count: int) -> bytes:
    return dice.integers(0, 256, count, dtype=np.uint8).tobytes()


def spoiled(content: bytes, dice: np.random.Generator) -> bytes:
    """Cut, flipped, filled, doubled or emptied."""
    at = int(dice.integers(len(content) + 1))
    way = int(dice.integers(7))
    if way == 0:
        return content[:at]
    if way == 1:
        return content[:at] + bytes([int(dice.integers(256))]) + content[at + 1 :]
    if way == 2:
        return content[:at] + _bytes(dice, 20) + content[at:]
    if way == 3:
        return b""
    if way == 4:
        return _bytes(dice, 64)
    if way == 5:
        return content[:at] + b"\x00" * 30 + content[at + 30 :]
    return content + content[at:]


VALUES: list[Any] = [
    None,
    -1,
    0,
    10**30,
    1e308,
    float("nan"),
    "",
    "x" * 300,
    [],
    {},
    True,
    ["a"],
    {"a": 1},
    "../../x",
    3.5,
    "\ud800",
]


def edited(content: bytes, dice: np.random.Generator) -> bytes:
    """JSON with one entry changed, taken out or put in, somewhere."""
    data = json.loads(content)
    node: Any = data
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            break
        key = keys[int(dice.integers(len(keys)))]
        if isinstance(node[key], dict | list) and node[key] and dice.random() < 0.6:
            node = node[key]
            continue
        if dice.random() < 0.25:
            del node[key]
        else:
            node[key] = VALUES[int(dice.integers(len(VALUES)))]
        break
    return json.dumps(data).encode()


def data_file(dice: np.random.Generator, place: Path) -> str:
    """A data file in one of the formats, whole or not."""
    texts = ["the film is good", 'a "quoted", text', "line\nbreak", "", "tab\there", "ünïcödé", "=1+1"]
    chosen = [texts[int(i)] for i in dice.integers(0, len(texts), int(dice.integers(0, 5)))]
    kind = str(
        dice.choice(["txt", "csv", "tsv", "jsonl", "parquet", "csv.gz", "jsonl.gz", "json", "TXT", "parquet.gz"])
    )
    form = kind.lower().removesuffix(".gz")
    if form == "parquet":
        column = "text" if dice.random() < 0.7 else "other"
        values: list[Any] = chosen if dice.random() < 0.7 else [1, None, 2.5]
        if not all(isinstance(v, str) for v in values):
            values = [v if isinstance(v, int | float | None) else 0 for v in values]
        sink = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(pyarrow.table({column: values}), sink)
        content = sink.getvalue().to_pybytes()
    elif form in ("jsonl", "json"):
        odd = [{"text": t, "label": VALUES[int(dice.integers(len(VALUES)))]} for t in chosen]
        odd += [{"text": VALUES[int(dice.integers(len(VALUES)))]}] if dice.random() < 0.5 else []
        content = "\n".join(json.dumps(row) for row in odd).encode()
        if dice.random() < 0.1:
            content += b"\n" + b"[" * 5000
        if dice.random() < 0.1:
            content += b'\n{"text": ' + b"9" * 5000 + b"}"
    else:
        mark = {"csv": ",", "tsv": "\t"}.get(form, " ")
        header = mark.join([["text"], ["sentence", "label"], ["text", "text"], ["a", "b"], []][int(dice.integers(5))])
        content = "\n".join([header, *(mark.join([t, "1"]) for t in chosen)]).encode(
            "utf-16" if dice.random() < 0.1 else "utf-8"
        )
        if dice.random() < 0.1:
            content += b'\n"' + b"x" * 200_000 + b'"'
    content = gzip.compress(content) if kind.endswith(".gz") else content
    path = place / f"data.{kind}"
    path.write_bytes(spoiled(content, dice) if dice.random() < 0.5 else content)
    found = read_texts(
        path,
        column=None if dice.random() < 0.7 else str(dice.choice(["text", "label", "", "\x00"])),
        label_column=None if dice.random() < 0.7 else "label",
        limit=None if dice.random() < 0.7 else int(dice.integers(-1, 4)),
    )
    if not all(isinstance(e.text, str) and e.text.strip() for e in found):
        raise WrongError(f"{path.name}: a text that is none was read")
    return f"{len(found)} texts"


def model_folder(dice: np.random.Generator, place: Path) -> str:
    """A model folder with one file spoiled, edited, missing, a link or a folder."""
    folder = place / "model"
    shutil.copytree(prepared() / "model", folder)
    names = sorted(path.name for path in folder.iterdir())
    path = folder / names[int(dice.integers(len(names)))]
    way = int(dice.integers(6))
    if way <= 2 and path.suffix == ".json":
        path.write_bytes(edited(path.read_bytes(), dice))
    elif way == 3:
        path.unlink()
    elif way == 4:
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(spoiled(path.read_bytes(), dice))
    m = looprop.load(folder)
    scores = m.explain("the film is not good", "cp-lrp").scores
    if not np.isfinite(scores).all():
        raise WrongError(f"{path.name}: scores that are no numbers")
    return f"{path.name} does not matter, or not enough"


def run_folder(dice: np.random.Generator, place: Path) -> str:
    """A run folder with something spoiled: read, and gone on with."""
    folder = place / "run"
    shutil.copytree(prepared() / "run", folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = files[int(dice.integers(len(files)))]
    way = int(dice.integers(7))
    if way <= 2 and path.suffix == ".json":
        path.write_bytes(edited(path.read_bytes(), dice))
    elif way == 3:
        path.unlink()
    elif way == 4:
        path.unlink()
        path.symlink_to(place / "outside")
    elif way == 5:
        (path.parent / "0-odd.parquet").write_bytes(_bytes(dice, 50))
        (path.parent / "notes").mkdir()
    else:
        path.write_bytes(spoiled(path.read_bytes(), dice))
    truth = [row["scores"] for row in read_run(prepared() / "run").rows]
    found = None
    with suppress(LoopropError):  # what cannot be read may still be finished
        found = read_run(folder)
    again = _go(prepared(), folder)
    for run in (found, again):
        if run is not None and run.finished and [row["scores"] for row in run.rows] != truth:
            raise WrongError(f"a spoiled {path.relative_to(folder)} (way {way}) gives other rows and says nothing")
    return "the run went on"


def explanation_file(dice: np.random.Generator, place: Path) -> str:
    """An explanation's JSON, edited or spoiled, then read and shown."""
    e = looprop.Explanation(
        ["not", "bad"], np.array([1.5, -0.5]), "loo", 1.0, 1, "positive", "not bad", [(0, 3), (4, 7)]
    )
    path = e.save(place / "e.json")
    path.write_bytes((edited if dice.random() < 0.7 else spoiled)(path.read_bytes(), dice))
    found = looprop.Explanation.load(path)
    found.save(place / "e.html")
    found.save(place / "again.json")
    repr(found)
    return "read"


WAYS: tuple[Callable[[np.random.Generator, Path], str], ...] = (data_file, model_folder, run_folder, explanation_file)


def _state(folder: Path) -> dict[str, int]:
    return {str(p.relative_to(folder)): p.lstat().st_size for p in sorted(folder.rglob("*"))}


def prepare() -> None:
    """Makes what all cases share."""
    prepared()


def case(seed: int) -> Outcome:
    """One file or folder."""
    dice = np.random.default_rng([seed, 3])
    way = WAYS[seed % len(WAYS)]
    before = _state(prepared())
    with tempfile.TemporaryDirectory(prefix="attack") as name:
        inside = Path(name) / "inside"
        inside.mkdir()
        here = os.getcwd()
        try:
            outcome = Outcome("right", f"{way.__name__}: {way(dice, inside)}")
        except LoopropError as error:
            outcome = Outcome("refused", f"{way.__name__}: {error}"[:200])
        if os.listdir(name) != ["inside"] or (inside / "outside").exists() or os.getcwd() != here:
            raise WrongError(f"{way.__name__}: something was written outside")
    if _state(prepared()) != before:
        raise WrongError(f"{way.__name__}: a file that was only read has changed")
    return outcome

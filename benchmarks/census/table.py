"""The committed table: written, read, compared with an older one, and sampled for the tests."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import transformers.models.auto.modeling_auto as auto

from benchmarks.common import RESULTS

TABLE = RESULTS / "census.json"

MAIN = ("SEQUENCE_CLASSIFICATION", "CAUSAL_LM", "IMAGE_CLASSIFICATION")
OTHERS = ("SEQ_TO_SEQ_CAUSAL_LM", "QUESTION_ANSWERING", "TOKEN_CLASSIFICATION", "MASKED_LM", "AUDIO_CLASSIFICATION")
HEADS = (*MAIN, *OTHERS)
METHODS = ("attnlrp", "cp-lrp", "conservation", "loo", "looprop", "rollout", "ig")
GOOD = ("ok", "none")

Record = dict[str, Any]


def pairs(heads: Iterable[str] = HEADS, only: Iterable[str] = ()) -> Iterator[tuple[str, str, str]]:
    """Head, architecture and class of everything in the library's own lists."""
    for head in heads:
        for architecture, names in getattr(auto, f"MODEL_FOR_{head}_MAPPING_NAMES").items():
            if not only or architecture in only:
                yield head, architecture, names if isinstance(names, str) else names[0]


def name_of(record: Record) -> str:
    """Head and architecture."""
    return f"{record['head']}:{record['architecture']}"


def write(path: Path, records: Iterable[Record], versions: dict[str, str]) -> None:
    """One line per pair, in the order of the library's lists."""
    kept = [{key: value for key, value in record.items() if key != "seconds"} for record in records]
    # What libraries say may hold addresses, which have no place in a table of results.
    lines = [re.sub(r"https?://[^\s\"\\\\]+", "(address)", json.dumps(r, ensure_ascii=False)) for r in kept]
    about = json.dumps(versions)
    path.write_text(f'{{"versions": {about},\n"pairs": [\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8")


def read(path: Path = TABLE) -> tuple[list[Record], dict[str, str]]:
    """The records, and the versions that they were made with."""
    table = json.loads(path.read_text(encoding="utf-8"))
    return table["pairs"], table["versions"]


def regressions(old: Iterable[Record], new: Iterable[Record]) -> list[str]:
    """What was good and no longer is, and whatever is wrong or crashes now and did not before."""
    before = {name_of(record): record for record in old}
    found = []
    for record in new:
        known = before.get(name_of(record), {"cells": {}})
        if known["cells"] and not record["cells"]:
            found.append(f"{name_of(record)}: could be run, and cannot any more: {record['unbuilt']}")
        for method, cell in record["cells"].items():
            was = known["cells"].get(method, {"verdict": "new"})["verdict"]
            lost = was in GOOD and cell["verdict"] not in GOOD
            worse = cell["verdict"] in ("wrong", "crash") and was not in ("wrong", "crash")
            if lost or worse:
                found.append(f"{name_of(record)} {method}: was {was}, is {cell['verdict']}: {cell['reason']}")
    return found


def sample(records: Iterable[Record], least: int = 60) -> list[Record]:
    """Pairs that show, between them, every head, route and verdict with every reason there is, smallest set first met;
    filled up evenly to `least`.
    """
    built = [record for record in records if record["cells"]]
    seen: set[tuple[str, ...]] = set()
    chosen = []
    for record in built:
        shown = {(record["head"], record["route"])}
        shown |= {(m, cell["verdict"], _kind(cell["reason"])) for m, cell in record["cells"].items()}
        if not shown <= seen:
            seen |= shown
            chosen.append(record)
    rest = [record for record in built if record not in chosen]
    missing = max(0, least - len(chosen))
    return chosen + rest[:: max(1, len(rest) // missing)][:missing] if missing else chosen


def _kind(reason: str) -> str:
    """A reason without the names and numbers in it: what is before the place and after the operation."""
    rule = reason.partition(" in ")[0] if reason.startswith("no relevance rule") else reason
    return "".join(c for c in rule if not c.isdigit())[:48]

"""Every number that looprop gives, bit for bit, before and after a change of its insides. Uses public names only.

    python -m benchmarks.bit_for_bit write FILE.json [--only REGEX]       compute and write sections whose name matches
    python -m benchmarks.bit_for_bit compare A.json B.json [--ignore REGEX] [--limit N] [--tolerance T]
                                                    what differs, and by how much; exit code 1 if anything does

Floats are written as float.hex, prefixed "f:", so that nothing is lost and NaN equals NaN. A call that refuses is
written as its error's class and message. An entry is "section/model/input/method"; a path inside an entry follows
after " . ". Times, paths and versions are left out; --ignore "cost" leaves out costs in a comparison. --tolerance 1e-6
passes over numbers that differ by so much of the largest number of their list, or of the model's output. Experiments
read LOOPROP_DATA.
It takes about six minutes of CPU time.
"""

import argparse
import json
import os
import re
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from benchmarks.bit_for_bit.answering import answers, catalogue, checks, heads, matrices, packed_lists, pairs
from benchmarks.bit_for_bit.comparing import compare
from benchmarks.bit_for_bit.explaining import (
    Entries,
    explain_bert,
    explain_embedded,
    explain_llama,
    explain_others,
    explain_vit,
)
from benchmarks.bit_for_bit.measuring import (
    audits,
    command_line,
    evaluate_bert,
    evaluate_embedded,
    evaluate_llama,
    evaluate_vit,
    explanations,
)
from benchmarks.bit_for_bit.plain import without_lines
from benchmarks.bit_for_bit.reproducing import experiments
from benchmarks.bit_for_bit.saving import saved_files
from benchmarks.bit_for_bit.tensors import attribute, errors, relevance

os.environ.setdefault("HF_HUB_OFFLINE", "1")

SECTIONS: dict[str, Callable[[], Entries]] = {
    "explain embedded": explain_embedded,
    "explain bert": explain_bert,
    "explain llama": explain_llama,
    "explain vit": explain_vit,
    "explain others": explain_others,
    "attribute": attribute,
    "relevance": relevance,
    "explanations": explanations,
    "errors": errors,
    "evaluate embedded": evaluate_embedded,
    "evaluate bert": evaluate_bert,
    "evaluate llama": evaluate_llama,
    "evaluate vit": evaluate_vit,
    "audit": audits,
    "command line": command_line,
    "catalogue": catalogue,
    "heads": heads,
    "answers": answers,
    "matrices": matrices,
    "pairs": pairs,
    "checks": checks,
    "packed lists": packed_lists,
    "saved files": saved_files,
    "experiments": experiments,
}


def write(path: str, only: str) -> None:
    import numpy as np
    import torch

    import looprop

    torch.set_num_threads(1)
    print(f"looprop from {looprop.__file__}, torch {torch.__version__}", file=sys.stderr)
    found: dict[str, Any] = {}
    for section, entries in SECTIONS.items():
        if not re.search(only, section):
            continue
        began, count, refused = time.process_time(), 0, 0
        for name, run in entries():
            key = f"{section}/{name}"
            assert key not in found, key
            torch.manual_seed(0)
            np.random.seed(0)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                try:
                    found[key] = run()
                except Exception as error:
                    found[key] = {"refused": type(error).__name__, "message": without_lines(str(error))}
                    refused += 1
            own = sorted({f"{w.category.__name__}: {w.message}" for w in said if issubclass(w.category, UserWarning)})
            if own:
                found[f"{key} (warnings)"] = own
            count += 1
        print(
            f"{section}: {count} entries, {refused} refused, {time.process_time() - began:.1f} s of CPU",
            file=sys.stderr,
        )
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file, ensure_ascii=False, indent=0, sort_keys=True)
        file.write("\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    writing, comparing = commands.add_parser("write"), commands.add_parser("compare")
    writing.add_argument("file")
    writing.add_argument("--only", default="")
    comparing.add_argument("one")
    comparing.add_argument("other")
    comparing.add_argument("--ignore", default="")
    comparing.add_argument("--limit", type=int, default=60)
    comparing.add_argument("--tolerance", type=float, default=0.0)
    given = parser.parse_args()
    if given.command == "write":
        write(given.file, given.only)
    else:
        sys.exit(compare(given.one, given.other, given.ignore, given.limit, given.tolerance))


if __name__ == "__main__":
    main()

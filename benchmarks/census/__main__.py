"""Every architecture of the transformers library under every method, held to slow ways.

    python -m benchmarks.census                          all, about ten minutes: table and docs/architectures.md
    python -m benchmarks.census --heads CAUSAL_LM --only llama qwen3     some, printed and not kept
    python -m benchmarks.census --render                 docs/architectures.md anew from the table
    python -m benchmarks.census --compare OLD.json       exit 1 where anything is worse than in an older table

For a new version of transformers: run it with --compare benchmarks/results/census.json, which is not overwritten then.
"""

import argparse
import platform
import sys
from pathlib import Path

from benchmarks.census import page, table
from benchmarks.census.running import run
from benchmarks.census.table import HEADS, TABLE, Record


def main(arguments: list[str] | None = None) -> int:
    """Run, write, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heads", nargs="+", default=list(HEADS), choices=HEADS)
    parser.add_argument("--only", nargs="+", default=[], help="architectures")
    parser.add_argument("--length", type=int, default=12, help="tokens of the text")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--out", type=Path, help="where to write the table instead")
    given = parser.parse_args(arguments)
    if given.render:
        page.write()
        return 0
    whole = given.heads == list(HEADS) and not given.only and given.length == 12
    records = []
    for record in run(list(table.pairs(given.heads, given.only)), given.length, given.processes):
        print(_summary(record), flush=True)
        records.append(record)
    old = table.read(given.compare)[0] if given.compare else []
    if given.out or (whole and not given.compare):
        table.write(given.out or TABLE, records, versions())
    if whole and not given.out and not given.compare:
        page.write()
    worse = table.regressions(old, records) if given.compare else []
    print("\n".join(worse) or "nothing is worse" if given.compare else "")
    return bool(worse)


def _summary(record: Record) -> str:
    cells = " ".join(f"{method}:{cell['verdict']}" for method, cell in record["cells"].items())
    return f"{record['head']:24} {record['architecture']:24} {record['route']:10} {cells or record['unbuilt'][:120]}"


def versions() -> dict[str, str]:
    """What the table was made with."""
    import torch
    import transformers

    return {"transformers": transformers.__version__, "torch": torch.__version__, "python": platform.python_version()}


if __name__ == "__main__":
    sys.exit(main())

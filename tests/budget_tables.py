"""What methods give for what they cost, as tables in docs/: rows of two measurements that were kept.

Between `<!-- context: RUN -->` and `<!-- end of table -->` stands one row per method of results/RUN, a run of
`looprop reproduce context`: means over the given answers. Between `<!-- fast shapley: BENCH, BENCH -->` and `<!-- end
of table -->` stands r to the Shapley value from benchmarks/results/fast_shapley_BENCH.json, one column per bench.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from looprop.study import read_run

CONTEXT = re.compile(r"(<!-- context: (?P<run>[\w-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
FAST = re.compile(r"(<!-- fast shapley: (?P<benches>[\w, -]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
MEASURES = {
    "passes": "passes",
    "r": "r to LOO",
    "lds": "LDS",
    "drop@1": "drop 1",
    "drop@3": "drop 3",
    "drop@5": "drop 5",
    "recall@1": "recall 1",
    "recall@3": "recall 3",
}


def context_table(run: str, results: Path) -> str:
    """Means over the given answers; how many there are stands above."""
    if not (results / run / "manifest.json").exists():
        return f"\n*The run `{run}` is not kept in this repository yet.*\n\n"
    rows = [row for row in read_run(results / run).rows if row["answer"] == "given"]
    count = len({row["example"] for row in rows})
    lines = [f"\n{count} questions ([report](../../results/{run}/report.md))\n"]
    lines += ["| method | " + " | ".join(MEASURES.values()) + " |", "| --- |" + " --- |" * len(MEASURES)]
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        means = [np.nanmean([np.nan if row[m] is None else row[m] for row in own]) for m in MEASURES]
        lines.append(f"| `{method}` | " + " | ".join(f"{mean:.2f}" for mean in means) + " |")
    return "\n".join(lines) + "\n\n"


def fast_shapley_table(benches: list[str], measured: Path) -> str:
    """Rows: the estimate and samplers by passes, then methods at their own price. Cells: mean r (its interval), and the
    passes that were really spent.
    """
    found = [json.loads((measured / f"fast_shapley_{bench}.json").read_text(encoding="utf-8")) for bench in benches]
    cells: list[dict[Any, str]] = []
    for bench in found:
        cells.append({(row["method"], row["passes"]): _cell(row) for row in bench["summary"]})
    heads = [
        f"{name}, {max(row['examples'] for row in bench['summary'])} texts"
        for name, bench in zip(benches, found, strict=True)
    ]
    lines = ["", f"| method | asked for | {' | '.join(heads)} |", "| --- | --- |" + " --- |" * len(benches)]
    order = sorted(dict.fromkeys(key for own in cells for key in own), key=lambda key: key[1] or np.inf)
    for key in order:
        method, passes = key
        asked = "its own price" if passes is None else f"{passes:g} passes"
        lines.append(f"| `{method}` | {asked} | {' | '.join(own.get(key, '–') for own in cells)} |")
    return "\n".join(lines) + "\n\n"


def _cell(row: dict[str, Any]) -> str:
    return f"{row['r']:.3f} ({row['low']:.2f} to {row['high']:.2f}) at {row['cost']:.1f}"


def with_budgets(text: str, results: Path, measured: Path) -> str:
    """A page with these tables filled."""
    text = CONTEXT.sub(lambda m: m[1] + context_table(m["run"], results) + m[3], text)
    return FAST.sub(
        lambda m: m[1] + fast_shapley_table([b.strip() for b in m["benches"].split(",")], measured) + m[3], text
    )

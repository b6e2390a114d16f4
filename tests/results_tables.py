"""Tables in docs/ that come from the runs kept under results/: `python tests/results_tables.py` writes them.

Between `<!-- table: RUN: METRIC, METRIC -->` and `<!-- end of table -->` stands one row per method of results/RUN/summary.json: mean
and 95 % interval of each metric, and the cost in forward passes. A run that is not there leaves a sentence that says so.
"""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- table: (?P<run>[\w-]+): (?P<metrics>[\w, -]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
TITLES = {"loo-r": "r to LOO", "loo-r-no-special": "r without special tokens", "lerf": "LeRF", "morf": "MoRF", "delta": "delta"}


def cell(entry: dict[str, Any], metric: str) -> str:
    """Mean and bounds.

    >>> cell({"delta": 0.5, "delta-low": -0.25, "delta-high": 1}, "delta")
    '0.500 (−0.250 to 1.000)'
    """
    if entry.get(metric) is None:
        return "–"
    mean, low, high = (f"{entry[key]:.3f}".replace("-", "−") for key in (metric, f"{metric}-low", f"{metric}-high"))
    return f"{mean} ({low} to {high})"


def table(run: str, metrics: list[str], results: Path) -> str:
    """The rows of one run."""
    place = results / run / "summary.json"
    if not place.exists():
        return f"\n*The run `{run}` is not kept in this repository yet.*\n\n"
    summary = json.loads(place.read_text(encoding="utf-8"))
    lines = [f"\n{summary['title']}\n", "| method | cost | " + " | ".join(TITLES.get(m, m) for m in metrics) + " |"]
    lines.append("| --- | --- |" + " --- |" * len(metrics))
    for entry in summary["summary"]:
        lines.append(f"| `{entry['method']}` | {entry['cost']:.1f} | " + " | ".join(cell(entry, metric) for metric in metrics) + " |")
    return "\n".join(lines) + "\n\n"


def filled(text: str, results: Path) -> str:
    """A page with its tables as the runs have them, and nothing else changed."""
    return BLOCK.sub(lambda m: m[1] + table(m["run"], [name.strip() for name in m["metrics"].split(",")], results) + m[4], text)


def main() -> None:
    for page in sorted((ROOT / "docs").glob("*.md")):
        page.write_text(filled(page.read_text(encoding="utf-8"), ROOT / "results"), encoding="utf-8")


if __name__ == "__main__":
    main()

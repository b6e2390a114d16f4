"""Tables in docs/ that come from the runs kept under results/: `python tests/results_tables.py` writes them.

Between `<!-- table: RUN: METRIC, METRIC -->` and `<!-- end of table -->` stands one row per method of
results/RUN/summary.json: mean and 95 % interval of each metric, and the cost in forward passes. A run that is not there
leaves a sentence that says so.

Between `<!-- true values: RUN first, RUN last -->` and `<!-- end of table -->` stands what `looprop` would give with
true values only, from the scores kept in the runs; first and last say which token is the read-out, whose true value
comes first.

Between `<!-- truths: RUN, RUN -->` and `<!-- end of table -->` stands one row per method: its cost, and for each run r
to leave-one-out and r to the Shapley value. Between `<!-- verdicts: RUN, RUN -->` and `<!-- end of table -->` stands
what the runs answer to their questions.

Between `<!-- trust -->` and `<!-- end of table -->` stands how right `check=` is, from benchmarks/results/trust.json
(`python -m benchmarks.trust`). What methods give for what they cost: `budget_tables.py`.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from budget_tables import with_budgets
from looprop.study import read_run
from readme_figures import with_bounds

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- table: (?P<run>[\w-]+): (?P<metrics>[\w, -]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
TRUE_VALUES = re.compile(r"(<!-- true values: (?P<runs>[\w, -]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
TRUTHS = re.compile(r"(<!-- truths: (?P<runs>[\w, -]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
VERDICTS = re.compile(r"(<!-- verdicts: (?P<runs>[\w, -]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
TRUST = re.compile(r"(<!-- trust -->\n).*?(<!-- end of table -->)", re.DOTALL)
TITLES = {
    "loo-r": "r to LOO",
    "loo-r-no-special": "r without special tokens",
    "lerf": "LeRF",
    "morf": "MoRF",
    "delta": "delta",
}


def table(run: str, metrics: list[str], results: Path) -> str:
    """The rows of one run."""
    place = results / run / "summary.json"
    if not place.exists():
        return f"\n*The run `{run}` is not kept in this repository yet.*\n\n"
    summary = json.loads(place.read_text(encoding="utf-8"))
    lines = [f"\n{summary['title']}\n", "| method | cost | " + " | ".join(TITLES.get(m, m) for m in metrics) + " |"]
    lines.append("| --- | --- |" + " --- |" * len(metrics))
    for entry in summary["summary"]:
        cells = [f"`{entry['method']}`", f"{entry['cost']:.1f}", *(with_bounds(entry, m, 3) for m in metrics)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n\n"


def true_values(run: str, read_out: int, results: Path) -> str:
    """One row: mean r with true values only and, after the bar, as `budget=` spends; how far first order is off at the
    first two.

    First order are the scores of `looprop[rows=0]`; true values are those of `loo`, for the read-out and then the
    largest estimates.
    """
    rows: dict[str, dict[str, Any]] = {}
    for row in read_run(results / run).rows:
        rows.setdefault(row["example"], {})[row["method"]] = row
    true_only: dict[int, list[float]] = {8: [], 11: []}
    errors = []
    for of in rows.values():
        loo, first = np.array(of["loo"]["scores"]), np.array(of["looprop[rows=0]"]["scores"])
        order = sorted(range(len(loo)), key=lambda i: (i != read_out % len(loo), -abs(first[i])))
        for passes, all_r in true_only.items():
            scores = first.copy()
            scores[order[: passes - 3]] = loo[order[: passes - 3]]
            all_r.append(1.0 if passes >= len(loo) else float(np.corrcoef(scores, loo)[0, 1]))
        largest = order[1:3]
        errors.append(np.abs(first[largest] - loo[largest]).sum() / np.abs(loo[largest]).sum())
    cells = []
    for passes, all_r in true_only.items():
        spent = np.nanmean([of[f"looprop[budget={passes}]"]["loo-r"] for of in rows.values()])
        cells.append(f"{np.nanmean(all_r):.3f} / {spent:.3f}")
    low, high = np.nanquantile(errors, [0.1, 0.9])
    return f"| `{run}` | {cells[0]} | {cells[1]} | {low:.1f} to {high:.1f} |"


def true_values_table(runs: str, results: Path) -> str:
    """Several runs."""
    lines = ["", "| run | 8 passes | 11 passes | error at the two largest |", "| --- | --- | --- | --- |"]
    for entry in runs.split(","):
        run, end = entry.split()
        lines.append(true_values(run, {"first": 0, "last": -1}[end], results))
    return "\n".join(lines) + "\n\n"


def trust_table(measured: Path) -> str:
    """One row per run and number of values: the half of the examples that chose nothing."""
    lines = ["", "| run | values | checks | mean error of r | interval holds r | its width |", "| --- |" + " --- |" * 5]
    for row in json.loads(measured.read_text(encoding="utf-8"))["rows"]:
        if row["half"] == "reported":
            numbers = f"{row['mean error']:.3f} | {row['coverage']:.1%} | {row['width']:.2f}".replace("%", " %")
            lines.append(f"| `{row['run']}` | {row['values']} | {row['checks']:,} | {numbers} |")
    return "\n".join(lines) + "\n\n"


def _kept(runs: str, results: Path) -> list[str]:
    return [run for entry in runs.split(",") if (results / (run := entry.strip()) / "summary.json").exists()]


def truths_table(runs: str, results: Path) -> str:
    """r to both references, one column per run; plans for single layers stay in the reports."""
    kept = _kept(runs, results)
    if not kept:
        return "\n*None of these runs is kept in this repository yet.*\n\n"
    summaries = [json.loads((results / run / "summary.json").read_text(encoding="utf-8")) for run in kept]
    own = [{entry["method"]: entry for entry in summary["summary"]} for summary in summaries]
    titles = [summary["title"].partition(": ")[2] for summary in summaries]
    links = [f"[{title}](../results/{run}/report.md)" for title, run in zip(titles, kept, strict=True)]
    lines = ["", f"| method | cost | {' | '.join(links)} |"]
    lines.append("| --- | --- |" + " --- |" * len(kept))
    for method in dict.fromkeys(name for entries in own for name in entries):
        if method.startswith("lrp["):
            continue
        costs = [
            entries[method]["cost"] for entries in own if method in entries and entries[method]["cost"] is not None
        ]
        cells = [f"`{method}`", f"{costs[0]:.0f}" if costs else "–"]
        for entries in own:
            found = entries.get(method, {})
            pair = (found.get("loo-r-no-special"), found.get("shapley-r-no-special"))
            cells.append(" / ".join("–" if r is None else f"{r:.2f}".replace("-", "−") for r in pair))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n\n"


def verdicts_table(runs: str, results: Path) -> str:
    """One row per question, one column per run: the verdict and the difference that it rests on."""
    found = {run: {c.claim: c for c in read_run(results / run).claims()} for run in _kept(runs, results)}
    lines = ["", "| question | " + " | ".join(f"`{run}`" for run in found) + " |", "| --- |" + " --- |" * len(found)]
    for claim in dict.fromkeys(claim for claims in found.values() for claim in claims):
        cells = [claim]
        for claims in found.values():
            judged = claims.get(claim)
            cells.append("–" if judged is None else f"**{judged.verdict}**, {judged.ours}".replace("-", "−"))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n\n"


def filled(text: str, results: Path) -> str:
    """A page with its tables as the runs have them, and nothing else changed."""
    text = BLOCK.sub(
        lambda m: m[1] + table(m["run"], [name.strip() for name in m["metrics"].split(",")], results) + m[4], text
    )
    text = TRUTHS.sub(lambda m: m[1] + truths_table(m["runs"], results) + m[3], text)
    text = VERDICTS.sub(lambda m: m[1] + verdicts_table(m["runs"], results) + m[3], text)
    text = with_budgets(text, results, ROOT / "benchmarks" / "results")
    text = TRUST.sub(lambda m: m[1] + trust_table(ROOT / "benchmarks" / "results" / "trust.json") + m[2], text)
    return TRUE_VALUES.sub(lambda m: m[1] + true_values_table(m["runs"], results) + m[3], text)


def pages() -> list[Path]:
    """All of docs/."""
    return sorted((ROOT / "docs").rglob("*.md"))


def main() -> None:
    for page in pages():
        page.write_text(filled(page.read_text(encoding="utf-8"), ROOT / "results"), encoding="utf-8")


if __name__ == "__main__":
    main()

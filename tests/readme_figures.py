"""What pages say of the methods, from what the methods say of themselves: the README's table, with its measured figures
from the runs kept under results/, and the sections of docs/limits.md. `python tests/readme_figures.py` writes them.

A run folder is results/truths-DATA, written by `looprop reproduce truths`; only its summary.json is read. Each of DATA
has two columns, r to leave-one-out and r to the Shapley value on the same texts: a method that is close to one need not
be close to the other. Two models are enough for a first look; docs/which-explanation.md has all.
"""

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from looprop.methods.registry import CATALOGUE
from looprop.naming import split_name

ROOT = Path(__file__).parents[1]
EXPERIMENT = "truths"
DATA = ("sst2", "mpnet")
REFERENCES = {"loo-r-no-special": ("LOO", "loo"), "shapley-r-no-special": ("Shapley", "shapley")}
LEAST_TEXTS = 20
"""A mean over fewer has no place in a README."""
HEADER = "| method | what it is | cost |"
TABLE = re.compile(rf"^{re.escape(HEADER)}.*?\n(?!\|)", re.MULTILINE | re.DOTALL)
NOTE = "Measured r to both references:"


@dataclass(frozen=True)
class Column:
    """One reference in one run: the run's folder, the heading, the run's title, and the figure of each method."""

    folder: str
    heading: str
    title: str
    figures: dict[str, str]


def with_bounds(entry: dict[str, Any], metric: str, digits: int) -> str:
    """Mean and bounds of a metric in one entry of a summary; a dash where it is undefined.

    >>> with_bounds({"loo-r": 0.123, "loo-r-low": -0.1, "loo-r-high": 0.2}, "loo-r", 2)
    '0.12 (−0.10 to 0.20)'
    """
    if entry.get(metric) is None:
        return "–"
    values = (entry[metric], entry[f"{metric}-low"], entry[f"{metric}-high"])
    mean, low, high = (f"{value:.{digits}f}".replace("-", "−") for value in values)
    return f"{mean} ({low} to {high})"


def columns(results: Path) -> list[Column]:
    """The runs that are there, two columns each."""
    kept = []
    for data in DATA:
        place = results / f"{EXPERIMENT}-{data}" / "summary.json"
        if not place.exists():
            continue
        summary = json.loads(place.read_text(encoding="utf-8"))
        if max(entry.get("loo-r-no-special-n", 0) for entry in summary["summary"]) < LEAST_TEXTS:
            continue
        title = summary["title"].partition(": ")[2]
        for metric, (called, itself) in REFERENCES.items():
            figures = {e["method"]: plainly(e.get(metric)) for e in summary["summary"]}
            # Where the form of the catalogue was not measured, another one of the same method was.
            for method in list(figures):
                figures.setdefault(split_name(method)[0], figures[method])
            figures[itself] = "1, itself"
            kept.append(Column(place.parent.name, f"{data}: {called}", title, figures))
    return kept


def plainly(r: float | None) -> str:
    """An r in two digits; a dash where there is none.

    >>> plainly(-0.123), plainly(None)
    ('−0.12', '–')
    """
    return "–" if r is None else f"{r:.2f}".replace("-", "−")


def with_methods(readme: str, shown: list[Column]) -> str:
    """The README with the table of methods and these columns in it, and nothing else changed."""
    rows = [[HEADER, *(f" r, {c.heading} |" for c in shown)], ["| --- | --- | --- |", *(" --- |" for _ in shown)]]
    for about in CATALOGUE.values():
        form = about.example or about.name
        first = f"| `{form}` | {about.summary} | {about.cost.replace(' * ', ' ')} |"
        rows.append([first, *(f" {c.figures.get(form, '–')} |" for c in shown)])
    table = "\n".join("".join(row) for row in rows) + "\n"
    lines = TABLE.sub(lambda _: table, readme).splitlines()
    return "\n".join(note(shown) if line.startswith(NOTE) else line for line in lines) + "\n"


def note(shown: list[Column]) -> str:
    """Where the figures come from."""
    titles = {c.folder: c.title for c in shown}
    runs = "; ".join(f"{title} ([report](results/{folder}/report.md))" for folder, title in titles.items())
    return (
        f"{NOTE} mean over texts, special tokens left out; `ig` with 20 steps, `kernel-shap` and `lime` with 32 "
        f"evaluations. {runs or 'No run is kept in this repository yet'}."
    )


def main() -> None:
    shown = columns(ROOT / "results")
    if not shown:
        sys.exit(
            "there is no run of truths under results/: run `looprop reproduce truths --limit 200 --out "
            "results/truths-sst2` first"
        )
    readme = ROOT / "README.md"
    readme.write_text(with_methods(readme.read_text(encoding="utf-8"), shown), encoding="utf-8")


if __name__ == "__main__":
    main()

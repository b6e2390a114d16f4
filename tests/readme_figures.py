"""What pages say of the methods, from what the methods say of themselves: the README's table, with its measured figures
from the runs kept under results/, and the sections of docs/limits.md. `python tests/readme_figures.py` writes them.

A run folder is results/EXPERIMENT-DATA, written by `looprop reproduce`; only its summary.json is read. Each DATA is a
column: the run of `baselines`, else of `remedy`, else of `layers`. What it did not measure is taken from the others
where they are on the same data, model and removal, or from `cheap` on some of the texts, which is said; else it is a
dash. `looprop` is taken from the run of `remedy`, whose question it is, where that is of the same model: the others
measured it as it came before.
"""

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from looprop.methods.names import CATALOGUE, SCORE_KINDS
from looprop.running.identity import compare

ROOT = Path(__file__).parents[1]
METRIC = "loo-r"
EXPERIMENTS = ("baselines", "remedy", "layers")
HEADER = "| method | what it is | cost |"
TABLE = re.compile(rf"^{re.escape(HEADER)}.*?\n(?!\|)", re.MULTILINE | re.DOTALL)
SECTIONS = re.compile(r"(?<=<!-- methods: make readme -->\n).*?(?=<!-- end of methods -->)", re.DOTALL)
NOTE = "Measured r to leave-one-out:"


@dataclass(frozen=True)
class Column:
    """One run: its folder, the name of its data, its title, and the figure of each method."""

    folder: str
    data: str
    title: str
    figures: dict[str, str]


def same_model(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Are two summaries of one model? An older one may say less of it."""
    return not compare({"model": one["about"]["model"]}, {"model": other["about"]["model"]}).changed


def same_conditions(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Do two summaries speak of the same examples, model and way to remove?"""
    a, b = one["about"], other["about"]
    return same_model(one, other) and a["data"] == b["data"] and a["setup"]["removal"] == b["setup"]["removal"]


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


def _of_a_subset(own: dict[str, Any], place: Path) -> dict[str, str]:
    """What a run on some of the same texts measured, of the same weights: with how many there were."""
    if not place.exists():
        return {}
    other = json.loads(place.read_text(encoding="utf-8"))
    a, b = own["about"], other["about"]
    same = all(a["data"][key] == b["data"][key] for key in ("name", "split"))
    if not same or a["model"]["weights"] != b["model"]["weights"] or a["setup"]["removal"] != b["setup"]["removal"]:
        return {}
    count = b["data"]["examples"]
    return {entry["method"]: f"{with_bounds(entry, METRIC, 2)}, {count} texts" for entry in other["summary"]}


def columns(results: Path) -> list[Column]:
    """The runs that are there, by data."""
    runs: dict[str, list[Path]] = {}
    for experiment in EXPERIMENTS:
        for place in sorted(results.glob(f"{experiment}-*/summary.json")):
            runs.setdefault(place.parent.name.removeprefix(f"{experiment}-"), []).append(place)
    kept = []
    for data, places in sorted(runs.items(), key=lambda item: (item[0] != "sst2", item[0])):
        own, *others = (json.loads(place.read_text(encoding="utf-8")) for place in places)
        figures: dict[str, str] = {}
        for summary in (own, *(other for other in others if same_conditions(own, other))):
            for entry in summary["summary"]:
                figures.setdefault(entry["method"], with_bounds(entry, METRIC, 2))
        figures = {**_of_a_subset(own, results / f"cheap-{data}" / "summary.json"), **figures}
        remedy = results / f"remedy-{data}" / "summary.json"
        if remedy.exists() and same_model(own, summary := json.loads(remedy.read_text(encoding="utf-8"))):
            entries = (entry for entry in summary["summary"] if entry["method"] == "looprop")
            figures |= {entry["method"]: with_bounds(entry, METRIC, 2) for entry in entries}
        figures["loo"] = "1, the reference"
        kept.append(Column(places[0].parent.name, data, own["title"].partition(": ")[2], figures))
    return kept


def with_methods(readme: str, shown: list[Column]) -> str:
    """The README with the table of methods and these columns in it, and nothing else changed."""
    rows = [[HEADER, *(f" r, {c.data} |" for c in shown)], ["| --- | --- | --- |", *(" --- |" for _ in shown)]]
    for about in CATALOGUE.values():
        form = about.example or about.name
        first = f"| `{form}` | {about.summary} | {about.cost.replace(' * ', ' ')} |"
        rows.append([first, *(f" {c.figures.get(form, '–')} |" for c in shown)])
    table = "\n".join("".join(row) for row in rows) + "\n"
    lines = TABLE.sub(lambda _: table, readme).splitlines()
    return "\n".join(note(shown) if line.startswith(NOTE) else line for line in lines) + "\n"


def with_limits(page: str) -> str:
    """docs/limits.md with a section for every method, and nothing else changed."""
    sections = ""
    for about in CATALOGUE.values():
        kind = f"`{about.name}`, kind of score *{about.kind}*: {SCORE_KINDS[about.kind]}."
        sections += f"\n## {about.title}\n\n{kind}\n\n{about.limits}\n"
    return SECTIONS.sub(lambda _: sections + "\n", page)


def note(shown: list[Column]) -> str:
    """Where the figures come from."""
    runs = "; ".join(f"{c.title} ([report](results/{c.folder}/report.md))" for c in shown)
    return (
        f"{NOTE} mean over examples with its 95 % interval, special tokens included. "
        f"{runs or 'No run is kept in this repository yet'}. `looprop` from the runs of "
        "[`remedy`](docs/looprop-method.md) where they are of the same weights."
    )


def main() -> None:
    shown = columns(ROOT / "results")
    if not shown:
        sys.exit(
            "there is no summary.json under results/: run `looprop reproduce baselines --out results/baselines-sst2` "
            "first"
        )
    readme, limits = ROOT / "README.md", ROOT / "docs" / "limits.md"
    readme.write_text(with_methods(readme.read_text(encoding="utf-8"), shown), encoding="utf-8")
    limits.write_text(with_limits(limits.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Write the report of one run, or of several together: HTML, Markdown, LaTeX, the numbers as CSV, and the figure as SVG
and PNG.
"""

import base64
import csv
import io
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from looprop.display.figures import to_bytes
from looprop.display.html import card, facts, page
from looprop.errors import DataError
from looprop.files import to_json, write_whole
from looprop.running.engines import describe
from looprop.study.report.content import grids
from looprop.study.report.cost_figure import cost_figure
from looprop.study.report.grids import Cells, Grid, markdown_text, to_html, to_latex, to_markdown, verdict_card
from looprop.study.report.layers_figure import layers_figure
from looprop.study.reproducing import Run, read_run
from looprop.study.verdicts import Verdict, verdicts


def write_report(run_folder: str | Path, *more: str | Path, out: str | Path | None = None) -> list[Path]:
    """Write report.html, report.md, tables.tex, summary.csv, and figure.svg and figure.png where there is a figure.

    Of one run on texts also summary.json, by docs/schema/evaluation.schema.json.

    more: other runs of the same experiment, shown beside the first (SST and IMDB, say). out: by default the first run's
        folder.
    """
    runs = [read_run(folder) for folder in (run_folder, *more)]
    for run in runs:
        if not run.rows:
            raise DataError(f"{run.folder} holds no finished example yet: nothing to report")
        if run.experiment != runs[0].experiment:
            raise DataError(
                f"runs of one report must be of one experiment, got {runs[0].experiment} and {run.experiment}"
            )
    place = Path(out) if out is not None else Path(run_folder)
    place.mkdir(parents=True, exist_ok=True)
    contents = [(run, grids(run), verdicts(run)) for run in runs]
    paths = [
        write_whole(place / "report.md", markdown(contents).encode()),
        write_whole(
            place / "tables.tex", "\n".join(to_latex(grid) for _, found, _ in contents for grid in found).encode()
        ),
        write_whole(place / "summary.csv", summary_csv(runs).encode()),
    ]
    if len(runs) == 1 and runs[0].spec["kind"] == "texts":
        paths.append(write_whole(place / "summary.json", to_json(runs[0].evaluation().to_dict())))
    picture = b""
    if runs[0].spec["kind"] == "texts":
        figure = layers_figure(runs) if runs[0].experiment == "layers" else cost_figure(runs)
        picture = to_bytes(figure, "svg")
        paths += [
            write_whole(place / "figure.svg", picture),
            write_whole(place / "figure.png", to_bytes(figure, "png")),
        ]
    return [write_whole(place / "report.html", html(contents, picture).encode()), *paths]


Content = tuple[Run, list[Grid], list[Verdict]]


def html(contents: Sequence[Content], picture: bytes = b"") -> str:
    """One page that needs nothing from the network."""
    body = ""
    for run, found, judged in contents:
        body += card(facts(run_facts(run)), title=run.title if len(contents) > 1 else "Where the numbers come from")
        if judged:
            body += verdict_card([(v.claim, v.paper, v.found, v.word) for v in judged])
        body += "".join(to_html(grid) for grid in found)
    if picture:
        data = base64.b64encode(picture).decode()
        title = "Figure 2: LOO r and delta by layer" if contents[0][0].experiment == "layers" else "LOO r against cost"
        body = card(f'<img class="figure" alt="{title}" src="data:image/svg+xml;base64,{data}">', title=title) + body
    first = contents[0][0]
    return page(
        first.title, body, subtitle=str(first.spec["question"]), footer=f"fingerprint {first.manifest['fingerprint']}"
    )


def run_facts(run: Run) -> list[tuple[str, str]]:
    """Where the numbers come from."""
    session = run.manifest["sessions"][-1]
    found = [
        ("experiment", run.experiment),
        ("data", str(run.manifest["data_title"])),
        ("model", str(run.manifest["model"])),
    ]
    found += [("examples", f"{len({row['example'] for row in run.rows})} of {run.manifest['tasks']}")]
    if weights := run.manifest["identity"].get("model", {}).get("weights"):
        found.append(("weights", weights[:12]))
    found += [("seed", str(run.manifest["identity"].get("seed", 0))), ("torch", session["versions"]["torch"])]
    found += [("finished", session["finished"] or "not yet"), ("sessions", str(len(run.manifest["sessions"])))]
    taken: Counter[str] = Counter()
    for each in run.manifest["sessions"]:
        if other := each.get("loo_from"):
            taken[other["run"]] += other["examples"]
    found += [("leave-one-out", f"of {count} examples from {other}") for other, count in taken.items() if count]
    accounts = [session["engine"] for session in run.manifest["sessions"] if "engine" in session]
    found += [(f"machines ({account['name']})", describe(account)) for account in accounts]
    if run.failed:
        found.append(("failed examples", "; ".join(f"{example}: {error}" for example, error in run.failed.items())))
    if run.damaged:
        found.append(("damaged parts computed anew", ", ".join(run.damaged)))
    return found


def markdown(contents: Sequence[Content]) -> str:
    """The same as one Markdown file."""
    parts = []
    for run, found, judged in contents:
        known = [f"- {name}: {markdown_text(value)}" for name, value in run_facts(run)]
        parts += [f"# {markdown_text(run.title)}", "", markdown_text(run.spec["question"]), "", *known, ""]
        if judged:
            rows: list[Cells] = [[v.word, v.claim, v.paper, v.found] for v in judged]
            header = ["verdict", "claim", "paper", "found here"]
            parts.append(to_markdown(Grid("The paper's claims, tested on these numbers", header, rows)))
        parts += [to_markdown(grid) for grid in found]
    return "\n".join(parts)


def summary_csv(runs: Sequence[Run]) -> str:
    """Means and bounds of every method and metric, for other programs; the means of each
    seed for the networks of RQ1.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["data", "table", "row", "column", "value", "low", "high", "n", "paper"])
    for run in runs:
        for grid in grids(run):
            for row in grid.rows:
                label = " ".join(cell for cell in row[:2] if isinstance(cell, str))
                for name, cell in zip(grid.header, row, strict=True):
                    if not isinstance(cell, str):
                        values = (cell.value, cell.low, cell.high, cell.count, cell.paper)
                        known = ["" if value is None or math.isnan(value) else value for value in values]
                        writer.writerow([run.manifest["data_title"], grid.title, label, name, *known])
    return file.getvalue()

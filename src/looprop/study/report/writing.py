"""Write the report of one run, or of several together: one HTML page that needs nothing from the network, Markdown,
LaTeX, the numbers as CSV, and the figure as SVG and PNG.
"""

import base64
import math
from collections.abc import Sequence
from pathlib import Path

from looprop.display import Cell, Column, card, facts, page, paragraph, table
from looprop.display.figures import to_bytes
from looprop.errors import DataError
from looprop.files import check_folder_place, to_json, write_whole
from looprop.study.report.grids import Contents, Grid, Measured, contents_of, run_facts
from looprop.study.report.text import markdown_report, numbers_csv, to_latex
from looprop.study.run import Run, read_run


def write_report(run_folder: str | Path, *more: str | Path, out: str | Path | None = None) -> list[Path]:
    """Write report.html, report.md, tables.tex, summary.csv, and figure.svg and figure.png where there is a figure.

    Of one run on texts also summary.json, by docs/schema/evaluation.schema.json.

    more: other runs of the same experiment, shown beside the first (SST and IMDB, say). out: by default the first run's
        folder.
    """
    place = Path(out) if out is not None else Path(run_folder)
    runs = [read_run(folder) for folder in (run_folder, *more)]
    check_folder_place(place)
    _check(runs)
    kind = runs[0].kind
    contents = [contents_of(run) for run in runs]
    tables = [to_latex(grid) for own in contents for grid in own.tables]
    files = {
        "report.md": markdown_report(contents).encode(),
        "tables.tex": "\n".join(tables).encode(),
        "summary.csv": numbers_csv(contents),
    }
    if len(runs) == 1 and kind.evaluates:
        files["summary.json"] = to_json(runs[0].evaluation().to_dict())
    title, svg = "", b""
    if picture := kind.picture(runs):
        title, svg = picture.title, to_bytes(picture.figure, "svg")
        files |= {"figure.svg": svg, "figure.png": to_bytes(picture.figure, "png")}
    files = {"report.html": html_report(contents, figure_title=title, svg=svg).encode(), **files}
    place.mkdir(parents=True, exist_ok=True)
    return [write_whole(place / name, content) for name, content in files.items()]


def _check(runs: Sequence[Run]) -> None:
    """Can these stand in one report?"""
    for run in runs:
        if not run.rows:
            raise DataError(f"{run.folder} holds no finished example yet: nothing to report")
        if run.experiment != runs[0].experiment:
            raise DataError(
                f"runs of one report must be of one experiment, got {runs[0].experiment} and {run.experiment}"
            )


WITH_BARS = 4
"""So many columns of numbers have room for bars."""
FOLDED = 24
"""More rows than that are shown on demand."""


def html_report(contents: Sequence[Contents], *, figure_title: str = "", svg: bytes = b"") -> str:
    """The page of one run, or of several together, with the figure first."""
    data = base64.b64encode(svg).decode()
    figure = f'<img class="figure" alt="{figure_title}" src="data:image/svg+xml;base64,{data}">'
    body = card(figure, title=figure_title) if svg else ""
    for own in contents:
        title = own.run.title if len(contents) > 1 else "Where the numbers come from"
        body += card(facts(run_facts(own.run)), title=title)
        body += "".join(to_html(grid) for grid in (*own.claims, *own.tables))
    first = contents[0].run
    footer = f"fingerprint {first.manifest['fingerprint']}"
    return page(first.title, body, subtitle=str(first.spec["question"]), footer=footer)


def to_html(grid: Grid) -> str:
    """A card with a table; numbers have bars where there is room for them."""
    numeric = {
        name for row in grid.rows for name, cell in zip(grid.header, row, strict=True) if isinstance(cell, Measured)
    }
    bars = not grid.compared and len(numeric) <= WITH_BARS
    columns: list[Column] = []
    for name in grid.header:
        columns.append(Column(name, bars=bars and name in numeric))
        columns += [Column("paper", tip="the paper's number, and ours minus it")] if name in grid.compared else []
    rows: list[list[str | Cell]] = []
    for row in grid.rows:
        cells: list[str | Cell] = []
        for name, cell in zip(grid.header, row, strict=True):
            cells += _cells(cell, compared=name in grid.compared)
        rows.append(cells)
    prose = not numeric and bool(rows)
    shown = table(columns, rows, sortable=grid.sortable, stacked=prose)
    shown = shown if prose else f'<div class="wide-tables">{shown}</div>'
    if len(rows) > FOLDED:
        shown = f"<details><summary>{len(rows)} rows</summary>{shown}</details>"
    return card(shown + (paragraph(grid.note) if grid.note else ""), title=grid.title)


def _cells(cell: str | Measured, *, compared: bool) -> list[str | Cell]:
    """A text or a number, and the paper's number beside it in a compared column."""
    if not isinstance(cell, Measured):
        return [cell, ""] if compared else [cell]
    low, high = (None, None) if math.isnan(cell.low) else (cell.low, cell.high)
    tip = " ".join(part for part in (cell.interval, "" if cell.count is None else f"n = {cell.count}") if part)
    ours = Cell(cell.value, low, high, text=cell.shown(cell.value), under=cell.interval, tip=tip, best=cell.best)
    if not compared:
        return [ours]
    paper = math.nan if cell.paper is None else cell.paper
    return [ours, Cell(paper, text=cell.shown(cell.paper), under=cell.difference)]

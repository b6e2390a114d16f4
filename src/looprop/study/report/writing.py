"""Write the report of one run, or of several together: one HTML page that needs nothing from the network, Markdown,
LaTeX, the numbers as CSV, and the figure as SVG and PNG.
"""

import base64
import math
import re
from collections.abc import Sequence
from pathlib import Path

from looprop.display import Cell, Column, card, facts, page, paragraph, table
from looprop.display.figures import to_bytes
from looprop.errors import DataError
from looprop.files import check_folder_place, to_json, write_whole
from looprop.result.writers import Record, to_csv
from looprop.study.report.grids import Contents, Grid, Measured, contents_of, run_facts
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
        if (own := run.experiment) != (first := runs[0].experiment):
            raise DataError(f"runs of one report must be of one experiment, got {first} and {own}")


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
    every = (pair for row in grid.rows for pair in zip(grid.header, row, strict=True))
    numeric = {name for name, cell in every if isinstance(cell, Measured)}
    bars = not grid.compared and len(numeric) <= WITH_BARS
    columns: list[Column] = []
    for name in grid.header:
        columns.append(Column(name, bars=bars and name in numeric))
        columns += [Column("paper", tip="the paper's number, and ours minus it")] if name in grid.compared else []
    rows: list[list[str | Cell]] = []
    for row in grid.rows:
        pairs = zip(grid.header, row, strict=True)
        rows.append([shown for name, cell in pairs for shown in _cells(cell, compared=name in grid.compared)])
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


COLUMNS = ("data", "table", "row", "column", "value", "low", "high", "n", "paper")
_SPELT = {
    "\\": r"\textbackslash{}",
    "–": "--",
    "−": "$-$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
}


def markdown_report(contents: Sequence[Contents]) -> str:
    """The report of one run, or of several, one after the other."""
    parts = []
    for own in contents:
        run = own.run
        known = [f"- {name}: {markdown_text(value)}" for name, value in run_facts(run)]
        parts += [f"# {markdown_text(run.title)}", "", markdown_text(run.spec["question"]), "", *known, ""]
        parts += [to_markdown(grid) for grid in (*own.claims, *own.tables)]
    return "\n".join(parts)


def to_markdown(grid: Grid) -> str:
    """A pipe table under a heading."""
    header = grid.flat_header()
    lines = [f"## {markdown_text(grid.title)}", "", _pipes(header), _pipes(["---"] * len(header))]
    lines += [_pipes(row) for row in grid.flat_rows()]
    return "\n".join([*lines, "", *([grid.note, ""] if grid.note else [])])


def _pipes(cells: Sequence[str]) -> str:
    return "| " + " | ".join(markdown_text(cell) for cell in cells) + " |"


def markdown_text(text: str) -> str:
    """Text that Markdown leaves as it is.

    >>> print(markdown_text("L_1 | [CLS]"))
    L\\_1 \\| \\[CLS\\]
    """
    return re.sub(r"([\\|*_<>`\[\]])", r"\\\1", text.replace("\n", " "))


def to_latex(grid: Grid) -> str:
    """A booktabs table."""
    header = grid.flat_header()
    caption = latex(f"{grid.title}. {grid.note}" if grid.note else grid.title)
    lines = [r"\begin{table}[t]", r"\centering", r"\small", rf"\caption{{{caption}}}"]
    lines += [
        rf"\begin{{tabular}}{{@{{}}l{'r' * (len(header) - 1)}@{{}}}}",
        r"\toprule",
        _ampersands(header),
        r"\midrule",
    ]
    lines += [_ampersands(row) for row in grid.flat_rows()]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _ampersands(cells: Sequence[str]) -> str:
    return " & ".join(latex(cell) for cell in cells) + r" \\"


def latex(text: str) -> str:
    """Text that LaTeX prints as it is; the square brackets stand in braces, so that no command takes them for an
    option.

    >>> latex("50 % of [CLS] & x_1")
    '50 \\\\% of {[}CLS{]} \\\\& x\\\\_1'
    """
    return "".join(_SPELT.get(c, f"\\{c}" if c in "&%$#_{}" else f"{{{c}}}" if c in "[]" else c) for c in text)


def numbers_csv(contents: Sequence[Contents]) -> bytes:
    """One line per number of every table. Low and high are its interval, or its lowest and highest seed."""
    rows: list[Record] = []
    for own in contents:
        for grid in own.tables:
            for row in grid.rows:
                label = " ".join(cell for cell in row[:2] if not isinstance(cell, Measured))
                for name, cell in zip(grid.header, row, strict=True):
                    if isinstance(cell, Measured):
                        values = (cell.value, cell.low, cell.high, cell.count, cell.paper)
                        line = (own.run.data_title, grid.title, label, name, *values)
                        rows.append(dict(zip(COLUMNS, line, strict=True)))
    return to_csv(rows, COLUMNS)

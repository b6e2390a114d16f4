"""A report as one HTML page that needs nothing from the network."""

import base64
import math
from collections.abc import Sequence

from looprop.display import Cell, Column, card, facts, page, paragraph, table
from looprop.study.report.contents import Contents, run_facts
from looprop.study.report.grids import Grid, Measured

WITH_BARS = 4
"""So many columns of numbers have room for bars."""
FOLDED = 24
"""More rows than that are shown on demand."""


def html_report(contents: Sequence[Contents], *, figure_title: str = "", svg: bytes = b"") -> str:
    """The page of one run, or of several together, with the figure first."""
    body = _figure(figure_title, svg) if svg else ""
    for own in contents:
        title = own.run.title if len(contents) > 1 else "Where the numbers come from"
        body += card(facts(run_facts(own.run)), title=title)
        body += "".join(to_html(grid) for grid in (*own.claims, *own.tables))
    first = contents[0].run
    footer = f"fingerprint {first.manifest['fingerprint']}"
    return page(first.title, body, subtitle=str(first.spec["question"]), footer=footer)


def _figure(title: str, svg: bytes) -> str:
    data = base64.b64encode(svg).decode()
    return card(f'<img class="figure" alt="{title}" src="data:image/svg+xml;base64,{data}">', title=title)


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

"""Tables as plain data, and the three ways to write them: HTML, Markdown, LaTeX."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from looprop.display import Cell, Column, card, paragraph, table

WITH_BARS = 4
"""So many columns of numbers have room for bars."""
FOLDED = 24
"""More rows than that are shown on demand."""


@dataclass(frozen=True)
class Number:
    """Our number with its interval and number of examples, and the paper's beside it where it printed one."""

    value: float
    low: float = math.nan
    high: float = math.nan
    count: int | None = None
    paper: float | None = None
    digits: int = 2
    best: bool = False

    @property
    def interval(self) -> str:
        """[low, high], or nothing."""
        return "" if math.isnan(self.low) else f"[{self.shown(self.low)}, {self.shown(self.high)}]"

    @property
    def difference(self) -> str:
        """Ours minus the paper's."""
        return (
            ""
            if self.paper is None or math.isnan(self.value)
            else f"{self._rounded(self.value - self.paper):+.{self.digits}f}"
        )

    def shown(self, value: float | None) -> str:
        return "–" if value is None or math.isnan(value) else f"{self._rounded(value):.{self.digits}f}"

    def _rounded(self, value: float) -> float:
        return round(value, self.digits) + 0.0  # no minus sign before a zero


Cells = list[str | Number]


@dataclass(frozen=True)
class Grid:
    """A table: names of columns, rows of texts and numbers; `compared` columns also show the paper's cell and the
    difference.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str | Number]]
    note: str = ""
    compared: frozenset[str] = field(default_factory=frozenset)

    def flat_header(self) -> list[str]:
        """The header with two more columns after each compared one."""
        return [name for h in self.header for name in ((h, "paper", "diff.") if h in self.compared else (h,))]

    def flat_rows(self) -> list[list[str]]:
        """Everything as text, in the columns of `flat_header`."""
        rows = []
        for row in self.rows:
            cells: list[str] = []
            for name, cell in zip(self.header, row, strict=True):
                if isinstance(cell, str):
                    cells += [cell, "", ""] if name in self.compared else [cell]
                    continue
                cells.append(f"{cell.shown(cell.value)} {cell.interval}".strip())
                if name in self.compared:
                    cells += [cell.shown(cell.paper), cell.difference or "–"]
            rows.append(cells)
        return rows


def to_html(grid: Grid) -> str:
    """A card with a sortable table; numbers have bars where there is room for them."""
    numeric = {
        name for row in grid.rows for name, cell in zip(grid.header, row, strict=True) if isinstance(cell, Number)
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
            if isinstance(cell, str):
                cells += [cell, ""] if name in grid.compared else [cell]
                continue
            low, high = (None, None) if math.isnan(cell.low) else (cell.low, cell.high)
            tip = " ".join(part for part in (cell.interval, "" if cell.count is None else f"n = {cell.count}") if part)
            cells.append(
                Cell(cell.value, low, high, text=cell.shown(cell.value), under=cell.interval, tip=tip, best=cell.best)
            )
            if name in grid.compared:
                paper = math.nan if cell.paper is None else cell.paper
                cells.append(Cell(paper, text=cell.shown(cell.paper), under=cell.difference))
        rows.append(cells)
    shown = table(columns, rows)
    if len(rows) > FOLDED:
        shown = f"<details><summary>{len(rows)} rows</summary>{shown}</details>"
    return card(shown + (paragraph(grid.note) if grid.note else ""), title=grid.title)


def to_markdown(grid: Grid) -> str:
    """A pipe table under a heading."""
    lines = [
        f"## {markdown_text(grid.title)}",
        "",
        _pipes(grid.flat_header()),
        _pipes(["---"] * len(grid.flat_header())),
    ]
    lines += [_pipes(row) for row in grid.flat_rows()]
    return "\n".join([*lines, "", *([grid.note, ""] if grid.note else [])])


def _pipes(cells: Sequence[str]) -> str:
    return "| " + " | ".join(markdown_text(cell) for cell in cells) + " |"


def markdown_text(text: str) -> str:
    """Text that Markdown leaves as it is."""
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


_LATEX = {
    "\\": r"\textbackslash{}",
    "–": "--",
    "−": "$-$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
}


def latex(text: str) -> str:
    """Text that LaTeX prints as it is; the square brackets stand in braces, so that no command takes them for an
    option.

    >>> latex("50 % of [CLS] & x_1")
    '50 \\\\% of {[}CLS{]} \\\\& x\\\\_1'
    """
    escaped = "".join(_LATEX.get(c, f"\\{c}" if c in "&%$#_{}" else f"{{{c}}}" if c in "[]" else c) for c in text)
    return escaped


def verdict_card(rows: Sequence[tuple[str, str, str, str]]) -> str:
    """Claims with what the paper prints, what we find, and the verdict."""
    columns = [Column(name) for name in ("verdict", "claim", "paper", "found here")]
    body = table(columns, [[word, claim, paper, found] for claim, paper, found, word in rows], sortable=False)
    return card(body, title="The paper's claims, tested on these numbers")

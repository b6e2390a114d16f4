"""A report's tables as text: Markdown, LaTeX with booktabs, and the numbers as CSV for other programs."""

import re
from collections.abc import Sequence

from looprop.result.writers import Record, to_csv
from looprop.study.report.grids import Contents, Grid, Measured, run_facts

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

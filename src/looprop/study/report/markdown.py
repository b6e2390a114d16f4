"""A report as one Markdown file."""

import re
from collections.abc import Sequence

from looprop.study.report.contents import Contents, run_facts
from looprop.study.report.grids import Grid


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

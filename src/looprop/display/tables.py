"""Tables of pages and notebooks: sortable columns, bars that start at zero, heat maps."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from looprop.display.data import aligned
from looprop.display.html import escape

SHORT = 26
"""Names of so many characters stay on one line."""


@dataclass(frozen=True)
class Cell:
    """A number, with an interval where there is one; `text` is shown in its stead if given, `under` small below it,
    `tip` on hover.

    best: set in bold.
    """

    value: float
    low: float | None = None
    high: float | None = None
    text: str | None = None
    tip: str = ""
    best: bool = False
    under: str = ""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    bars: each number is also drawn from zero, on the column's own scale; tip: explains the heading;
    order: "ascending" or "descending" if the rows come sorted by this column.
    """

    name: str
    bars: bool = False
    tip: str = ""
    order: str = "none"


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str | Cell]],
    *,
    strong: frozenset[int] = frozenset(),
    sortable: bool = True,
) -> str:
    """A table; a string cell is plain text, a `Cell` a number; `strong` rows are set in bold."""
    numeric = [any(isinstance(row[j], Cell) for row in rows) for j in range(len(columns))]
    head = ""
    for column, is_number in zip(columns, numeric, strict=True):
        attributes = (' class="num"' if is_number else "") + (f' title="{escape(column.tip)}"' if column.tip else "")
        # Names are first sorted from a to z, numbers from the largest down.
        attributes += (f' aria-sort="{column.order}"' + ("" if is_number else " data-first")) if sortable else ""
        head += f"<th{attributes}>{escape(column.name)}</th>" + ('<th class="wide"></th>' if column.bars else "")
    spans = [_span([row[j] for row in rows]) for j in range(len(columns))]
    body = ""
    for i, row in enumerate(rows):
        cells = "".join(
            _cell(cell, span, bars=column.bars) for cell, span, column in zip(row, spans, columns, strict=True)
        )
        body += ('<tr class="strong">' if i in strong else "<tr>") + cells + "</tr>"
    return f'<div class="scroll"><table class="data"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(cell: str | Cell, span: tuple[float, float], *, bars: bool) -> str:
    if isinstance(cell, str):
        short = ' class="short"' if len(cell) <= SHORT else ""
        return f"<td{short}>{escape(cell)}</td>" + ("<td></td>" if bars else "")
    text = aligned(cell.value, max(map(abs, span)), signed=False) if cell.text is None else cell.text
    tip = f' title="{escape(cell.tip)}"' if cell.tip else ""
    under = f"<small>{escape(cell.under)}</small>" if cell.under else ""
    shown = f'<td class="num{" best" if cell.best else ""}" data-sort="{cell.value}"{tip}>{escape(text)}{under}</td>'
    return shown + (f"<td>{bar(cell, span)}</td>" if bars else "")


def _span(cells: Sequence[str | Cell]) -> tuple[float, float]:
    """The lowest and highest number of a column, zero always between them."""
    numbers = [
        v for c in cells if isinstance(c, Cell) for v in (c.value, c.low, c.high) if v is not None and math.isfinite(v)
    ]
    return min([0.0, *numbers]), max([0.0, *numbers])


def bar(cell: Cell, span: tuple[float, float]) -> str:
    """A bar from zero to the number, with a line over the interval; `span` is the column's
    lowest and highest number.
    """
    low, high = span
    width = (high - low) or 1.0

    def piece(tag: str, start: float, end: float) -> str:
        return f'<{tag} style="--from:{(start - low) / width:.4f};--length:{(end - start) / width:.4f}"></{tag[0]}>'

    inside = ""
    if math.isfinite(cell.value):
        inside += piece("i" if cell.value >= 0 else 'i class="n"', min(0.0, cell.value), max(0.0, cell.value))
    if cell.low is not None and cell.high is not None and math.isfinite(cell.low) and math.isfinite(cell.high):
        inside += piece("b", cell.low, cell.high)
    return f'<span class="bar" style="--origin:{-low / width:.4f}">{inside}</span>'


def heat_table(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    *,
    corner: str = "",
    scales: Sequence[float] | None = None,
    uncoloured: frozenset[int] = frozenset(),
) -> str:
    """A heat map with its numbers: values[i][j] coloured on scale j (the largest magnitude of the column unless given).

    uncoloured: rows that are shown without colour and have no say in the scale.
    """
    if scales is None:
        coloured = [
            [abs(v) for i, v in enumerate(column) if i not in uncoloured and math.isfinite(v)]
            for column in zip(*values, strict=True)
        ]
        scales = [max(column, default=0.0) for column in coloured]
    head = f'<th aria-sort="none" data-first>{escape(corner)}</th>'
    head += "".join(f'<th aria-sort="none" style="text-align:center">{escape(name)}</th>' for name in columns)
    body = ""
    for i, (name, row) in enumerate(zip(rows, values, strict=True)):
        cells = "".join(
            heat_cell(value, scale, coloured=i not in uncoloured) for value, scale in zip(row, scales, strict=True)
        )
        body += f'<tr><td data-sort="{i}">{escape(name)}</td>{cells}</tr>'
    return f'<div class="scroll"><table class="data"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def heat_cell(value: float, scale: float, *, coloured: bool = True) -> str:
    """One cell of a heat map."""
    attributes = mixed(value / scale if scale > 0 else 0.0) if coloured and math.isfinite(value) else ("outside", "")
    return f'<td class="heat {attributes[0]}" style="{attributes[1]}" data-sort="{value}">{aligned(value, scale)}</td>'


def mixed(fraction: float) -> tuple[str, str]:
    """Class and style that give an element the colour of a value in [-1, 1] in whichever theme it is shown.

    >>> mixed(-0.5)
    ('n', '--m:50.0%')
    """
    return ("n" if fraction < 0 else "p"), f"--m:{100 * min(1.0, abs(fraction)):.1f}%"

"""The parts of pages and notebook output. Nothing comes from the network."""

import html
import math
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files

from looprop.display.colour import DARK, LIGHT
from looprop.display.data import VISIBLE, Cell, Column, Mark, aligned, spans, texts

# The browser itself refuses whatever is not written in the page.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
SHORT = 26  # names of so many characters stay on one line
# Check boxes, so that they work without a script: one merges the pieces of words, one colours all methods on one scale.
WORD_SWITCH = '<label class="switch"><input type="checkbox" class="word-switch">Whole words</label>'
SCALE_SWITCH = '<label class="switch"><input type="checkbox" class="scale-switch">One scale for all</label>'


def escape(text: str) -> str:
    """Text as HTML, safe inside elements and quoted attributes, control and direction characters made visible.

    >>> escape('<script>"&')
    '&lt;script&gt;&quot;&amp;'
    """
    return html.escape(text.translate(VISIBLE), quote=True)


@cache
def style() -> str:
    text = asset("looprop.css")
    for name, scale in (("light", LIGHT), ("dark", DARK)):
        for part, colour in vars(scale).items():
            text = text.replace(f"@{name}.{part}@", colour)
    return text


@cache
def asset(name: str) -> str:
    return files("looprop.display").joinpath("assets", name).read_text(encoding="utf-8")


def page(
    title: str,
    body: str,
    *,
    subtitle: str = "",
    words: bool = False,
    scales: bool = False,
    footer: str = "",
    more: str = "",
) -> str:
    """A whole page. `title`, `subtitle` and `footer` are plain text, `body` is HTML; `words` adds the token/word
    switch, `scales` that of one colour scale, `more` the style and script of that name to those of every page.
    """
    own_style, own_script = (asset(f"{more}.css"), asset(f"{more}.js")) if more else ("", "")
    switch = (WORD_SWITCH if words else "") + (SCALE_SWITCH if scales else "")
    below = f'<p class="subtitle">{escape(subtitle)}</p>' if subtitle else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)} · looprop</title>\n<style>\n{style()}{own_style}</style>\n</head>\n"
        '<body class="looprop"><main>\n<header><div class="titles"><span '
        f'class="brand">looprop</span><h1>{escape(title)}</h1>{below}</div>'
        f'<div class="controls">{switch}<button type="button" id="theme">Theme</button></div></header>\n'
        f"{body}\n<footer>{escape(footer)}</footer>\n</main>\n"
        f"<script>\n{asset('looprop.js')}{asset('page.js')}{own_script}</script>\n</body>\n</html>\n"
    )


def fragment(body: str, *, plain: str = "") -> str:
    """Output for a notebook cell, in a shadow root: no style goes in or out. `body` is HTML.

    plain: what is shown instead where the notebook runs no scripts (one that is not trusted).
    """
    inside = f'<style>:host{{all:initial;display:block}}\n{style()}</style><div class="looprop fragment">{body}</div>'
    return (
        f"<div data-looprop><template>{inside}</template><pre>{escape(plain)}</pre>"
        f"<script>(() => {{{asset('looprop.js')}{asset('theme.js')}{asset('notebook.js')}}})();</script></div>"
    )


def card(body: str, *, title: str = "") -> str:
    """A section of a page; `title` is plain text, `body` is HTML."""
    heading = f"<h2>{escape(title)}</h2>" if title else ""
    return f'<section class="card">{heading}{body}</section>\n'


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Pairs of a name and a value, as plain text."""
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)
    return f'<dl class="facts">{items}</dl>' if items else ""


def meanings(pairs: Iterable[tuple[str, str]]) -> str:
    """The meaning of a table's columns: names and sentences, as plain text."""
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(said)}</dd>" for name, said in pairs)
    return f'<dl class="meanings">{items}</dl>' if items else ""


def paragraph(text: str) -> str:
    """A paragraph of plain text."""
    return f"<p>{escape(text)}</p>"


def folded(body: str, said: str) -> str:
    """HTML that is shown on demand; `said` is plain text."""
    return f"<details><summary>{escape(said)}</summary>{body}</details>"


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[str | Cell]],
    *,
    strong: frozenset[int] = frozenset(),
    sortable: bool = True,
    keys: Sequence[str] | None = None,
    lines: Sequence[str] | None = None,
    stacked: bool = False,
) -> str:
    """A table; a string cell is plain text, a `Cell` a number; `strong` rows are set in bold.

    keys: names of features, one per row, which the script links to their marks in a text or picture; lines: of lines of
    a chart. stacked: in a narrow window each row is a block of its own.
    """
    numeric = [any(isinstance(row[j], Cell) for row in rows) for j in range(len(columns))]
    head = ""
    for column, is_number in zip(columns, numeric, strict=True):
        attributes = (' class="num"' if is_number else "") + (f' title="{escape(column.tip)}"' if column.tip else "")
        # Names are first sorted from a to z, numbers from the largest down.
        attributes += (f' aria-sort="{column.order}"' + ("" if is_number else " data-first")) if sortable else ""
        under = f"<small>{escape(column.under)}</small>" if column.under else ""
        head += f"<th{attributes}>{escape(column.name)}{under}</th>" + ('<th class="wide"></th>' if column.bars else "")
    scales = spans(rows)
    body = ""
    for i, (row, shown) in enumerate(zip(rows, texts(rows), strict=True)):
        cells = "".join(_cell(*parts, stacked) for parts in zip(row, shown, columns, scales, strict=True))
        key = f' data-feature="{escape(keys[i])}"' if keys else ""
        key += f' data-line="{escape(lines[i])}"' if lines else ""
        body += (f'<tr class="strong"{key}>' if i in strong else f"<tr{key}>") + cells + "</tr>"
    return _scrolled("data stack" if stacked else "data", head, body)


def _cell(cell: str | Cell, text: str, column: Column, span: tuple[float, float], stacked: bool) -> str:
    label = f' data-label="{escape(column.name)}"' if stacked else ""
    if isinstance(cell, str):
        short = ' class="short"' if len(cell) <= SHORT else ""
        return f"<td{short}{label}>{escape(text)}</td>" + ("<td></td>" if column.bars else "")
    tip = f' title="{escape(cell.tip)}"' if cell.tip else ""
    under = f"<small>{escape(cell.under)}</small>" if cell.under else ""
    attributes = f'class="num{" best" if cell.best else ""}" data-sort="{cell.value}"{tip}{label}'
    return f"<td {attributes}>{escape(text)}{under}</td>" + (f"<td>{bar(cell, span)}</td>" if column.bars else "")


def bar(cell: Cell, span: tuple[float, float]) -> str:
    """A bar from zero to the number, with a line over the interval. span: the column's lowest and highest number."""
    low, high = span
    width, value, inside = (high - low) or 1.0, cell.value or 0.0, ""
    size = ("i", 0.0, value) if value >= 0 else ('i class="n"', value, 0.0)
    for tag, start, end in (size, ("b", cell.low, cell.high)):
        if start is not None and end is not None and math.isfinite(start) and math.isfinite(end):
            place = f"--from:{(start - low) / width:.4f};--length:{(end - start) / width:.4f}"
            inside += f'<{tag} style="{place}"></{tag[0]}>'
    return f'<span class="bar" style="--origin:{-low / width:.4f}">{inside}</span>'


def heat_table(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    *,
    corner: str = "",
    scales: Sequence[float] | None = None,
    uncoloured: frozenset[int] = frozenset(),
    key: str = "",
) -> str:
    """A heat map with its numbers: values[i][j] coloured on scale j (the largest magnitude of the column unless given).

    uncoloured: rows without colour and without a say in the scale. key: the first letter of the features' names, where
    rows are features that are marked elsewhere.
    """
    if scales is None:
        kept = [row for i, row in enumerate(values) if i not in uncoloured] or [[math.nan] * len(columns)]
        scales = [max((abs(v) for v in column if math.isfinite(v)), default=0.0) for column in zip(*kept, strict=True)]
    head = f'<th aria-sort="none" data-first>{escape(corner)}</th>'
    head += "".join(f'<th aria-sort="none" style="text-align:center">{escape(name)}</th>' for name in columns)
    body = ""
    written = [[aligned(value, scale) for value, scale in zip(row, scales, strict=True)] for row in values]
    for i, (name, row, shown) in enumerate(zip(rows, values, written, strict=True)):
        linked = f' data-feature="{key}{i}"' if key else ""
        body += f'<tr{linked}><td data-sort="{i}">{escape(name)}</td>'
        for value, scale, text in zip(row, scales, shown, strict=True):
            known = i not in uncoloured and math.isfinite(value)
            side, colour = mixed(value / scale if scale > 0 else 0.0) if known else ("outside", "")
            body += f'<td class="heat {side}" style="{colour}" data-sort="{value}">{text}</td>'
        body += "</tr>"
    return _scrolled("data", head, body)


def _scrolled(kind: str, head: str, body: str) -> str:
    table = f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll">{table}</div>'


def coloured_text(marks: Sequence[Mark], key: str) -> str:
    """The features of a strip in one flowing text. key: the first letter of their names, for the script."""
    text = ""
    for index, mark in enumerate(marks):
        side, colour = mixed(mark.fraction) if mark.fraction is not None else ("outside", "")
        flags = {"joined": mark.joined, "special": mark.special, "known": mark.known}
        classes = " ".join(["f", side, *(name for name, on in flags.items() if on)])
        text += "<br>" * min(2, mark.breaks) or ("" if index == 0 or mark.joined else " ")
        text += (
            f'<span class="{classes}" style="{colour}" data-feature="{key}{index}" '
            f'title="{escape(mark.tip)}">{_feature(mark.text)}</span>'
        )
    return text


def _feature(text: str) -> str:
    """A feature as HTML: the space before it is the gap, line breaks are seen and made, spaces alone are seen."""
    text = text[1:] if text.startswith(" ") and text.strip() else text
    if "\n" in text:
        return "↵\n".join(escape(line) for line in text.replace("\r\n", "\n").split("\n"))
    return escape(text if text.strip() or not text else "␣" * len(text))


def mixed(fraction: float) -> tuple[str, str]:
    """Class and style that give an element the colour of a value in [-1, 1] in whichever theme it is shown.

    >>> mixed(-0.5)
    ('n', '--m:50.0%')
    """
    return ("n" if fraction < 0 else "p"), f"--m:{100 * min(1.0, abs(fraction)):.1f}%"

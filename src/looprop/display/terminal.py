"""Explanations in a terminal: coloured features where there is colour, numbers and signs where there is none.

Colours are set together with their text colour, so that they can be read on dark and on light backgrounds.
"""

import math
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from looprop.display.colour import TERMINAL, colour_of
from looprop.display.data import Cell, Column, Strip, agreements, aligned, number, texts, visible
from looprop.display.prompts import PromptView, change, shortened

# Below this share of the scale a feature keeps the terminal's own colours: a screen full of grey chips shows nothing.
FAINT = 0.06
LONGEST_PART = 300


def has_colour(console: Console) -> bool:
    """Whether output is in colour: in a terminal that has colours, without NO_COLOR."""
    return console.color_system is not None and not console.no_color


def feature_style(fraction: float | None) -> Style:
    """The style of a feature at this place of the scale, None outside the scale."""
    if fraction is None:
        return Style(dim=True, italic=True)
    if abs(fraction) < FAINT:
        return Style()
    return Style(color=TERMINAL.text, bgcolor=colour_of(fraction, TERMINAL))


def strip(shown: Strip, *, colour: bool) -> Text:
    """Features in one flowing line; without colour each is followed by its score, `great[+0.82]`."""
    text, scale = Text(overflow="fold"), shown.scale
    for index, mark in enumerate(shown.marks()):
        if index and not (colour and mark.joined):
            text.append(" ")
        if colour:
            text.append(visible(mark.text), feature_style(mark.fraction))
        else:
            text.append(f"{visible(mark.text)}[{aligned(shown.scores[index], scale)}]")
    return text


def bar(fraction: float | None, *, colour: bool, width: int = 10) -> Text:
    """A bar around zero, `width` characters to each side: `-` to the left, `+` to the right."""
    if fraction is None:
        return Text(" " * width + "│" + " " * width)
    length, sign = round(abs(fraction) * width), "━" if colour else "+" if fraction > 0 else "-"
    style = Style(color=TERMINAL.positive if fraction > 0 else TERMINAL.negative) if colour else Style()
    left = (sign * length).rjust(width) if fraction < 0 else " " * width
    right = (sign * length).ljust(width) if fraction > 0 else " " * width
    return Text.assemble((left, style), "│", (right, style))


def feature_table(shown: Strip, *, colour: bool, limit: int = 12) -> RenderableType:
    grid = _grid("feature", "score", "", *(["true value"] if shown.known else []))
    largest, marks = max(map(abs, shown.known.values()), default=0.0), shown.marks()
    for index in shown.strongest_first()[:limit]:
        grid.add_row(
            Text(visible(shown.features[index])),
            aligned(shown.scores[index], shown.scale),
            bar(marks[index].fraction, colour=colour),
            *([aligned(shown.known[index], largest) if index in shown.known else ""] if shown.known else []),
        )
    left = len(shown.features) - limit
    return Group(grid, Text(f"and {left} weaker features", style="dim")) if left > 0 else grid


def explanation(shown: Strip, *, colour: bool, limit: int = 12) -> RenderableType:
    """One explanation: facts, coloured text, legend, strongest features."""
    parts: list[RenderableType] = [_facts(shown.facts)] if shown.facts else []
    parts += [Text(), strip(shown, colour=colour), Text()]
    if colour:
        parts += [legend(shown.scale), Text()]
    return Group(*parts, feature_table(shown, colour=colour, limit=limit))


def legend(scale: float) -> Text:
    """The colour scale with zero in the middle."""
    steps = [(step - 8) / 8 for step in range(17)]
    chips = [("0" if step == 0 else " ", feature_style(step)) for step in steps]
    return Text.assemble((f"against {number(-scale)} ", "dim"), *chips, (f" {number(scale)} for", "dim"))


def comparison(strips: Sequence[Strip], *, colour: bool) -> RenderableType:
    """Methods side by side: name, r to each reference, features."""
    known = list(dict.fromkeys(name for shown in strips for name, _ in agreements(shown)))
    told = not known and any(shown.verdict for shown in strips)
    grid = _grid("method", *known, *(["r to leave-one-out"] if told else []), "features", lines=True)
    for shown in strips:
        own = dict(agreements(shown))
        grid.add_row(
            Text(visible(shown.name), style="bold"),
            *(own.get(name, "–") for name in known),
            *([Text(shown.verdict)] if told else []),
            strip(shown, colour=colour),
        )
    return grid


def prompt_ranking(view: PromptView, *, colour: bool, limit: int = 5) -> RenderableType:
    """The parts of a prompt that speak most for an answer: score, the answer's probability with and without, text."""
    totals, scale = view.totals, view.scale
    known = [i for i, total in enumerate(totals) if math.isfinite(total)]
    grid = _grid("score", "", *(["with and without"] if view.effects else []), "part of the prompt", lines=True)
    for i in sorted(known, key=lambda i: -totals[i])[:limit]:
        chances = [Text(change(view.logprob, totals[i], len(view.answer)), style="dim")] if view.effects else []
        place = next((d.name for d in view.documents if (span := view.spans[i]) and d.start <= span[0] < d.stop), "")
        named = Text(f"{visible(place)}  ", style="dim") if place and place != view.names[i] else Text()
        part = named + Text(visible(shortened(view.names[i], LONGEST_PART)))
        share = totals[i] / scale if scale else 0.0
        grid.add_row(aligned(totals[i], scale), bar(share, colour=colour, width=6), *chances, part)
    left = len(known) - limit
    more = [Text(f"and {left} that speak less for it, or against it", style="dim")] if left > 0 else []
    return Group(_facts(view.facts), Text(), grid, *more)


def _facts(pairs: Sequence[tuple[str, str]]) -> Text:
    return Text(visible("  ".join(f"{name} {value}" for name, value in pairs)), style="dim")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, numeric: frozenset[int] = frozenset()) -> Table:
    """A plain table of strings, numbers to the right; for evaluations and audits. The first column, of names, is never
    cut.
    """
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for index, name in enumerate(columns):
        is_number = index in numeric
        grid.add_column(Text(name), justify="right" if is_number else "left", no_wrap=is_number or index == 0)
    for row in rows:
        grid.add_row(*(Text(visible(cell)) for cell in row))
    return grid


def data_table(columns: Sequence[Column], rows: Sequence[Sequence[str | Cell]]) -> Table:
    """The table that `html.table` draws on a page, without what a terminal has no room for."""
    numeric = frozenset(j for row in rows for j, cell in enumerate(row) if isinstance(cell, Cell))
    return table([column.name for column in columns], texts(rows), numeric=numeric)


def _grid(*columns: str, lines: bool = False) -> Table:
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 1 if lines else 0, 0), header_style="dim")
    for name in columns:
        is_number = name in {"score", "r to LOO", "r to Shapley", "true value"}
        whole = is_number or name in {"", "method"}
        grid.add_column(name, justify="right" if is_number else "left", no_wrap=whole, overflow="fold")
    return grid

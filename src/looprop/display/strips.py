"""Features as selectable, coloured text: one explanation, or several side by side."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from looprop.display.data import Cell, Column, Strip, agreements, aligned, number, visible
from looprop.display.html import card, escape, facts, fragment, heat_table, mixed, page, table, word_switch


@dataclass(frozen=True)
class View:
    """The token view of an explanation and, where words have several pieces, its word view."""

    tokens: Strip
    words: Strip | None = None


def strip(shown: Strip, *, scale: float | None = None, small: bool = False) -> str:
    """A strip of features as text; on hover the value and its share of the scale. `scale`: the score that gets the full
    colour.
    """
    full = shown.scale if scale is None else scale
    parts = []
    for index, feature in enumerate(shown.features):
        fraction = shown.fraction(index, full)
        side, colour = mixed(fraction) if fraction is not None else ("outside", "")
        classes = [
            "f",
            side,
            *(["joined"] if shown.is_joined(index) else []),
            *(["special"] if shown.is_special(index) else []),
            *(["known"] if index in shown.known else []),
        ]
        tip = number(shown.scores[index])
        tip += (
            " (outside the colour scale)"
            if index in shown.outside_scale
            else f" · position {index + 1} of {len(shown.features)}"
        )
        tip += f" · true value {number(shown.known[index])}" if index in shown.known else ""
        gap = "" if index == 0 or shown.is_joined(index) else " "
        # A feature of nothing but spaces would be invisible.
        text = feature if feature.strip() or not feature else "␣" * len(feature)
        parts.append(
            f'{gap}<span class="{" ".join(classes)}" style="{colour}" title="{escape(tip)}">{escape(text)}</span>'
        )
    return f'<p class="strip{" fragment-strip" if small else ""}">{"".join(parts)}</p>'


def legend(scale: float | None, *, outside: bool = False, known: bool = False) -> str:
    """The colour scale with zero in the middle; without a number where every strip has its own scale."""
    ends = ("strongest against", "strongest for") if scale is None else (number(-scale), number(scale))
    note = "<span>each method on its own scale</span>" if scale is None else ""
    note += "<span>outlined: outside the scale</span>" if outside else ""
    note += '<span><span class="known">underlined</span>: its true value was computed</span>' if known else ""
    sides = (escape(ends[0]), escape(ends[1]))
    against, speaks_for = ("", "") if scale is None else ("against the target ", " for the target")
    return (
        f'<div class="legend"><span>{against}{sides[0]}</span><span '
        f'class="ramp"></span><span>{sides[1]}{speaks_for}</span>{note}</div>'
    )


def feature_table(shown: Strip) -> str:
    """Features by strength, with bars around zero; the page's script sorts by any column."""
    columns = [Column("#"), Column("feature"), Column("score", bars=True), Column("|score|", order="descending")]
    columns += [Column("true value", tip="leave-one-out, computed to check the scores")] if shown.known else []
    largest = max(map(abs, filter(math.isfinite, shown.scores)), default=0.0)
    rows: list[list[str | Cell]] = []
    for i in shown.strongest_first():
        score = shown.scores[i]
        size = Cell(abs(score), text=aligned(abs(score), largest, signed=False))
        rows.append(
            [
                Cell(float(i + 1), text=str(i + 1)),
                visible(shown.features[i]) or "(empty)",
                Cell(score, text=aligned(score, largest)),
                size,
                *([_true_value(shown, i)] if shown.known else []),
            ]
        )
    return table(columns, rows)


def _true_value(shown: Strip, index: int) -> str | Cell:
    if index not in shown.known:
        return Cell(math.nan, text="")
    largest = max(map(abs, shown.known.values()))
    return Cell(shown.known[index], text=aligned(shown.known[index], largest))


def _both(view: View, render_tokens: str, render_words: str | None) -> str:
    if view.words is None or render_words is None:
        return render_tokens
    return f'<div class="tokens">{render_tokens}</div><div class="words">{render_words}</div>'


def _strip_and_legend(shown: Strip, *, small: bool = False) -> str:
    return strip(shown, small=small) + legend(shown.scale, outside=bool(shown.outside_scale), known=bool(shown.known))


def explanation_page(title: str, view: View, *, subtitle: str = "", footer: str = "", more: str = "") -> str:
    """The page of one explanation: facts, coloured text, legend, table of features. more: further sections."""
    words = view.words
    text = _both(view, _strip_and_legend(view.tokens), _strip_and_legend(words) if words else None)
    features = _both(view, feature_table(view.tokens), feature_table(words) if words else None)
    body = card(facts(view.tokens.facts) + text) + more + card(features, title="Features by strength")
    return page(title, body, subtitle=subtitle, words=words is not None, footer=footer)


def explanation_fragment(title: str, view: View) -> str:
    """One explanation for a notebook cell."""
    words = view.words
    switch = word_switch() if words else ""
    text = _both(
        view, _strip_and_legend(view.tokens, small=True), _strip_and_legend(words, small=True) if words else None
    )
    return fragment(f"<h2>{escape(title)}</h2>{facts(view.tokens.facts)}{text}<p>{switch}</p>")


def comparison(views: Sequence[View]) -> str:
    """Methods side by side on one text: a strip each, on its own scale, with its r to each reference."""
    rows = "".join(_method(view) for view in views)
    strips = [view.tokens for view in views]
    return rows + legend(None, outside=any(s.outside_scale for s in strips), known=any(s.known for s in strips))


def _method(view: View) -> str:
    shown = view.tokens
    r = "".join(
        f'<small class="r" title="Pearson\'s r, special tokens left out">{name} <b>{value}</b></small>'
        for name, value in agreements(shown)
    )
    notes = "".join(f"<small>{escape(name)} {escape(value)}</small>" for name, value in shown.facts)
    text = _both(view, strip(shown), strip(view.words) if view.words else None)
    return f'<div class="method"><div class="who">{escape(shown.name)}{r}{notes}</div><div>{text}</div></div>'


def _heat(strips: Sequence[Strip]) -> str:
    first = strips[0]
    names = [f"{i + 1}  {visible(feature)}" for i, feature in enumerate(first.features)]
    values = [[shown.scores[i] for shown in strips] for i in range(len(first.features))]
    return heat_table(
        names,
        [s.name for s in strips],
        values,
        corner="feature",
        scales=[s.scale for s in strips],
        uncoloured=first.outside_scale,
    )


def comparison_page(
    title: str, groups: Sequence[Sequence[View]], *, subtitle: str = "", footer: str = "", more: str = ""
) -> str:
    """One card per text: its methods side by side, and a heat map of features by methods. more: further sections."""
    body = ""
    for views in groups:
        body += card(comparison(views))
        if len({len(view.tokens.features) for view in views}) == 1 and len(views) > 1:
            words = [view.words for view in views if view.words is not None]
            heat = _both(
                views[0], _heat([view.tokens for view in views]), _heat(words) if len(words) == len(views) else None
            )
            body += card(heat, title="Feature by feature")
    has_words = any(view.words is not None for views in groups for view in views)
    return page(title, body + more, subtitle=subtitle, words=has_words, footer=footer)


def comparison_fragment(groups: Sequence[Sequence[View]]) -> str:
    """Several explanations for a notebook cell."""
    has_words = any(view.words is not None for views in groups for view in views)
    return fragment("".join(comparison(views) for views in groups) + (f"<p>{word_switch()}</p>" if has_words else ""))

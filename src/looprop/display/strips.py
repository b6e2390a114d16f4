"""Features as selectable, coloured text: one explanation, or several side by side."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from looprop.display.data import Cell, Column, Strip, agreements, aligned, number, visible
from looprop.display.html import (
    card,
    escape,
    facts,
    folded,
    fragment,
    heat_table,
    mixed,
    page,
    paragraph,
    scale_switch,
    table,
    word_switch,
)
from looprop.display.pictures import picture, strength_slider

FEW = 30
"""More features are listed on demand."""


@dataclass(frozen=True)
class View:
    """The token view of an explanation and, where words have several pieces, its word view."""

    tokens: Strip
    words: Strip | None = None


def strip(shown: Strip, *, scale: float | None = None, small: bool = False, share: float = 1.0, key: str = "t") -> str:
    """A strip of features as text; on hover the value and its share of the scale. `scale`: the score that gets the full
    colour; share: of the scale that all methods have together; key: the first letter of the features' names.
    """
    if shown.picture is not None:
        return picture(shown, share=share)
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
        gap = "" if index == 0 or shown.is_joined(index) else " "
        gap = "<br>" * min(2, shown.breaks[index]) if shown.breaks and shown.breaks[index] else gap
        parts.append(
            f'{gap}<span class="{" ".join(classes)}" style="{colour}" data-feature="{key}{index}" '
            f'title="{escape(_tip(shown, index))}">{_text(feature)}</span>'
        )
    own = f' style="--share:{share:.4f}"' if share != 1.0 else ""
    return f'<p class="strip{" fragment-strip" if small else ""}"{own}>{"".join(parts)}</p>'


def _tip(shown: Strip, index: int) -> str:
    tip = number(shown.scores[index])
    tip += (
        " (outside the colour scale)"
        if index in shown.outside_scale
        else f" · position {index + 1} of {len(shown.features)}"
    )
    return tip + (f" · true value {number(shown.known[index])}" if index in shown.known else "")


def _text(feature: str) -> str:
    """A feature as HTML: the space before it is the gap, line breaks are seen and made, spaces alone are seen."""
    text = feature[1:] if feature.startswith(" ") and feature.strip() else feature
    if "\n" in text:
        return "↵\n".join(escape(line) for line in text.replace("\r\n", "\n").split("\n"))
    return escape(text if text.strip() or not text else "␣" * len(text))


def legend(scale: float | None, *, outside: bool = False, known: bool = False) -> str:
    """The colour scale with zero in the middle; without a number where every strip has its own scale."""
    ends = ("strongest against", "strongest for") if scale is None else (number(-scale), number(scale))
    note = '<span class="own-scale">each method on its own scale</span>' if scale is None else ""
    note += '<span class="one-scale"><span>all methods in one unit on one scale</span></span>' if scale is None else ""
    note += "<span>outlined: outside the scale</span>" if outside else ""
    note += '<span><span class="known">underlined</span>: its true value was computed</span>' if known else ""
    sides = (escape(ends[0]), escape(ends[1]))
    against, speaks_for = ("", "") if scale is None else ("against the target ", " for the target")
    return (
        f'<div class="legend"><span>{against}{sides[0]}</span><span '
        f'class="ramp"></span><span>{sides[1]}{speaks_for}</span>{note}</div>'
    )


def feature_table(shown: Strip, *, key: str = "t") -> str:
    """Features by strength, with bars around zero; the page's script sorts by any column and links rows with marks."""
    columns = [Column("#"), Column("feature"), Column("score", bars=True), Column("|score|", order="descending")]
    columns += [Column("true value", tip="leave-one-out, computed to check the scores")] if shown.known else []
    largest = max(map(abs, filter(math.isfinite, shown.scores)), default=0.0)
    rows: list[list[str | Cell]] = []
    order = shown.strongest_first()
    for i in order:
        score = shown.scores[i]
        size = Cell(abs(score), text=aligned(abs(score), largest, signed=False))
        rows.append(
            [
                Cell(float(i + 1), text=str(i + 1)),
                visible(shown.features[i].strip(" ") or shown.features[i].replace(" ", "␣")) or "(empty)",
                Cell(score, text=aligned(score, largest)),
                size,
                *([_true_value(shown, i)] if shown.known else []),
            ]
        )
    keys = [f"{key}{i}" for i in order]
    if len(rows) <= FEW:
        return table(columns, rows, keys=keys)
    first, everything = table(columns, rows[:FEW], keys=keys[:FEW]), table(columns, rows, keys=keys)
    return f'<div class="first-rows">{first}</div>' + folded(everything, f"all {len(rows)} features")


def _true_value(shown: Strip, index: int) -> str | Cell:
    if index not in shown.known:
        return Cell(math.nan, text="")
    largest = max(map(abs, shown.known.values()))
    return Cell(shown.known[index], text=aligned(shown.known[index], largest))


def _both(view: View, render_tokens: str, render_words: str | None) -> str:
    if view.words is None or render_words is None:
        return render_tokens
    return f'<div class="tokens">{render_tokens}</div><div class="words">{render_words}</div>'


def _strip_and_legend(shown: Strip, *, small: bool = False, key: str = "t") -> str:
    slider = strength_slider() if shown.picture is not None else ""
    below = legend(shown.scale, outside=bool(shown.outside_scale), known=bool(shown.known))
    return strip(shown, small=small, key=key) + slider + below


def explanation_page(
    title: str, view: View, *, subtitle: str = "", note: str = "", footer: str = "", more: str = ""
) -> str:
    """The page of one explanation: facts, coloured text, legend, table of features. note: a sentence below them; more:
    further sections.
    """
    words = view.words
    text = _both(view, _strip_and_legend(view.tokens), _strip_and_legend(words, key="w") if words else None)
    features = _both(view, feature_table(view.tokens), feature_table(words, key="w") if words else None)
    told = paragraph(note) if note else ""
    body = card(facts(view.tokens.facts) + told + text) + more + card(features, title="Features by strength")
    return page(title, body, subtitle=subtitle, words=words is not None, footer=footer)


def explanation_fragment(title: str, view: View, *, note: str = "", plain: str = "") -> str:
    """One explanation for a notebook cell. plain: what stands there where no script runs."""
    words = view.words
    switch = f"<p>{word_switch()}</p>" if words else ""
    text = _both(
        view,
        _strip_and_legend(view.tokens, small=True),
        _strip_and_legend(words, small=True, key="w") if words else None,
    )
    told = paragraph(note) if note else ""
    return fragment(f"<h2>{escape(title)}</h2>{facts(view.tokens.facts)}{told}{text}{switch}", plain=plain)


def comparison(views: Sequence[View]) -> str:
    """Methods side by side on one text: a strip each, on its own scale or on one, with its r to each reference."""
    strips = [view.tokens for view in views]
    largest = max((s.scale for s in strips if s.alike), default=0.0)
    rows = "".join(_method(view, largest) for view in views)
    rows = f'<div class="pictures">{rows}</div>' if any(s.picture is not None for s in strips) else rows
    slider = strength_slider() if any(s.picture is not None for s in strips) else ""
    below = legend(None, outside=any(s.outside_scale for s in strips), known=any(s.known for s in strips))
    return f'<div class="compared">{rows}{slider}{below}</div>'


def _method(view: View, largest: float) -> str:
    shown = view.tokens
    r = "".join(
        f'<small class="r" title="Pearson\'s r, special tokens left out">{escape(name)} <b>{value}</b></small>'
        for name, value in agreements(shown)
    )
    notes = "".join(f"<small>{escape(name)} {escape(value)}</small>" for name, value in shown.facts)
    share = shown.scale / largest if shown.alike and largest > 0 else 1.0
    who = f'<div class="who">{escape(shown.name)}{r}{notes}</div>'
    if shown.picture is not None:
        return f"<div>{strip(shown, share=share)}{who}</div>"
    text = _both(view, strip(shown, share=share), strip(view.words, share=share, key="w") if view.words else None)
    return f'<div class="method">{who}<div>{text}</div></div>'


def _heat(strips: Sequence[Strip], key: str = "t") -> str:
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
        key=key,
    )


def comparison_page(
    title: str,
    groups: Sequence[Sequence[View]],
    *,
    subtitle: str = "",
    notes: Sequence[str] = (),
    footer: str = "",
    more: str = "",
) -> str:
    """One card per text: its methods side by side, and a heat map of features by methods. notes: sentences above;
    more: further sections.
    """
    body = card("".join(map(paragraph, notes))) if notes else ""
    for views in groups:
        own = card(comparison(views))
        if len({len(view.tokens.features) for view in views}) == 1 and len(views) > 1:
            words = [view.words for view in views if view.words is not None]
            heat = _both(
                views[0],
                _heat([view.tokens for view in views]),
                _heat(words, "w") if len(words) == len(views) else None,
            )
            own += card(heat, title="Feature by feature")
        body += f'<div class="linking">{own}</div>'
    has_words = any(view.words is not None for views in groups for view in views)
    several = any(len(views) > 1 for views in groups)
    return page(title, body + more, subtitle=subtitle, words=has_words, scales=several, footer=footer)


def comparison_fragment(groups: Sequence[Sequence[View]], *, notes: Sequence[str] = (), plain: str = "") -> str:
    """Several explanations for a notebook cell."""
    has_words = any(view.words is not None for views in groups for view in views)
    switches = (word_switch() if has_words else "") + (scale_switch() if any(len(v) > 1 for v in groups) else "")
    body = "".join(map(paragraph, notes))
    body += "".join(f'<div class="linking">{comparison(views)}</div>' for views in groups)
    body += f"<p>{switches}</p>" if switches else ""
    return fragment(body, plain=plain)

"""Features as selectable, coloured text, or as a heat map over an image: one explanation, or several side by side."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from looprop.display.data import Cell, Column, Mark, Strip, agreements, aligned, number, visible
from looprop.display.html import (
    card,
    coloured_text,
    escape,
    facts,
    folded,
    fragment,
    heat_table,
    page,
    paragraph,
    scale_switch,
    table,
    word_switch,
)

FEW = 30
"""More features are listed on demand."""


@dataclass(frozen=True)
class View:
    """The token view of an explanation and, where words have several pieces, its word view."""

    tokens: Strip
    words: Strip | None = None


def strip(shown: Strip, *, small: bool = False, share: float = 1.0, key: str = "t") -> str:
    """A strip of features as text; on hover the value and its share of the scale. share: of the scale that all methods
    have together; key: the first letter of the features' names.
    """
    if shown.picture is not None:
        return _picture(shown, share=share)
    own = f' style="--share:{share:.4f}"' if share != 1.0 else ""
    text = coloured_text(shown.marks(), key)
    return f'<p class="strip{" fragment-strip" if small else ""}"{own}>{text}</p>'


def _picture(shown: Strip, *, share: float = 1.0) -> str:
    """The image of a strip whose features are patches. share: of the scale that all methods have together."""
    drawn = shown.picture
    assert drawn is not None
    patches = [""] * (drawn.rows * drawn.columns)
    for index, (mark, cells) in enumerate(zip(shown.marks(), drawn.cells, strict=False)):
        for cell in cells:
            patches[cell] = _patch(mark, index)
    grid = "".join(patch or '<span class="patch"></span>' for patch in patches)
    return (
        f'<div class="picture" style="--share:{share:.4f}"><img alt="the image that is explained" '
        f'src="data:image/png;base64,{escape(drawn.png)}"><div class="grid" style="--columns:{drawn.columns};'
        f'--wide:{drawn.wide:.4f};--high:{drawn.high:.4f}">{grid}</div></div>'
    )


def _patch(mark: Mark, index: int) -> str:
    side = "" if mark.fraction is None else " n" if mark.fraction < 0 else " p"
    strength = abs(mark.fraction or 0.0)
    return (
        f'<span class="patch{side}" style="--a:{strength:.3f}" data-feature="t{index}" title="{escape(mark.tip)}">'
        "</span>"
    )


def _strength_slider() -> str:
    """A slider for the strength of the heat maps of a page."""
    return (
        '<label class="strength-of">picture <input type="range" class="strength" min="0" max="100" value="75" '
        'aria-label="strength of the heat map"> heat map</label>'
    )


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


def feature_table(shown: Strip, key: str = "t") -> str:
    """Features by strength, with bars around zero; the page's script sorts by any column and links rows with marks."""
    columns = [Column("#"), Column("feature"), Column("score", bars=True), Column("|score|", order="descending")]
    columns += [Column("true value", tip="leave-one-out, computed to check the scores")] if shown.known else []
    largest = max(map(abs, filter(math.isfinite, shown.scores)), default=0.0)
    rows: list[list[str | Cell]] = []
    order = shown.strongest_first()
    for i in order:
        score = shown.scores[i]
        size = Cell(abs(score), text=aligned(abs(score), largest, signed=False))
        name = visible(shown.features[i].strip(" ") or shown.features[i].replace(" ", "␣")) or "(empty)"
        known = [_true_value(shown, i)] if shown.known else []
        rows.append(
            [Cell(float(i + 1), text=str(i + 1)), name, Cell(score, text=aligned(score, largest)), size, *known]
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


def _both(view: View, draw: Callable[[Strip, str], str]) -> str:
    """Tokens and words, drawn alike. draw: takes a strip and the first letter of its features' names."""
    return _either(draw(view.tokens, "t"), draw(view.words, "w") if view.words is not None else "")


def _either(tokens: str, words: str) -> str:
    """Two pieces of HTML, of which the page shows one; words: "" where there are none."""
    return f'<div class="tokens">{tokens}</div><div class="words">{words}</div>' if words else tokens


def _strip_and_legend(shown: Strip, key: str, *, small: bool = False) -> str:
    slider = _strength_slider() if shown.picture is not None else ""
    below = legend(shown.scale, outside=bool(shown.outside_scale), known=bool(shown.known))
    return strip(shown, small=small, key=key) + slider + below


def explanation_page(
    title: str, view: View, *, subtitle: str = "", note: str = "", footer: str = "", more: str = ""
) -> str:
    """The page of one explanation: facts, coloured text, legend, table of features. note: a sentence below them; more:
    further sections.
    """
    told = paragraph(note) if note else ""
    body = card(facts(view.tokens.facts) + told + _both(view, _strip_and_legend)) + more
    body += card(_both(view, feature_table), title="Features by strength")
    return page(title, body, subtitle=subtitle, words=view.words is not None, footer=footer)


def explanation_fragment(title: str, view: View, *, note: str = "", plain: str = "") -> str:
    """One explanation for a notebook cell. plain: what stands there where no script runs."""
    switch = f"<p>{word_switch()}</p>" if view.words else ""
    text = _both(view, partial(_strip_and_legend, small=True))
    told = paragraph(note) if note else ""
    return fragment(f"<h2>{escape(title)}</h2>{facts(view.tokens.facts)}{told}{text}{switch}", plain=plain)


def comparison(views: Sequence[View]) -> str:
    """Methods side by side on one text: a strip each, on its own scale or on one, with its r to each reference."""
    strips = [view.tokens for view in views]
    largest = max((s.scale for s in strips if s.alike), default=0.0)
    rows = "".join(_method(view, largest) for view in views)
    rows = f'<div class="pictures">{rows}</div>' if any(s.picture is not None for s in strips) else rows
    slider = _strength_slider() if any(s.picture is not None for s in strips) else ""
    below = legend(None, outside=any(s.outside_scale for s in strips), known=any(s.known for s in strips))
    return f'<div class="compared">{rows}{slider}{below}</div>'


def _method(view: View, largest: float) -> str:
    shown = view.tokens
    share = shown.scale / largest if shown.alike and largest > 0 else 1.0
    r = "".join(
        f'<small class="r" title="Pearson\'s r, special tokens left out">{escape(name)} <b>{value}</b></small>'
        for name, value in agreements(shown)
    )
    notes = "".join(f"<small>{escape(name)} {escape(value)}</small>" for name, value in shown.facts)
    who = f'<div class="who">{escape(shown.name)}{r}{notes}</div>'
    if shown.picture is not None:
        return f"<div>{strip(shown, share=share)}{who}</div>"
    text = _both(view, lambda own, key: strip(own, share=share, key=key))
    return f'<div class="method">{who}<div>{text}</div></div>'


def _heat(strips: Sequence[Strip], key: str) -> str:
    first = strips[0]
    names = [f"{i + 1}  {visible(feature)}" for i, feature in enumerate(first.features)]
    values = [[shown.scores[i] for shown in strips] for i in range(len(first.features))]
    methods, scales = [s.name for s in strips], [s.scale for s in strips]
    return heat_table(names, methods, values, corner="feature", scales=scales, uncoloured=first.outside_scale, key=key)


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
            tokens = _heat([view.tokens for view in views], "t")
            heat = _either(tokens, _heat(words, "w") if len(words) == len(views) else "")
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

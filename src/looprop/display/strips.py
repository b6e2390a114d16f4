"""Features as selectable, coloured text, or as a heat map over an image: one explanation, or several side by side."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from looprop.display.data import Cell, Column, Strip, agreements, aligned, number, visible
from looprop.display.html import (
    SCALE_SWITCH,
    WORD_SWITCH,
    card,
    coloured_text,
    escape,
    facts,
    folded,
    fragment,
    heat_table,
    page,
    paragraph,
    table,
)

FEW = 30  # more features are listed on demand
STRENGTH_SLIDER = (
    '<label class="strength-of">picture <input type="range" class="strength" min="0" max="100" value="75" '
    'aria-label="strength of the heat map"> heat map</label>'
)
"""For the strength of the heat maps of a page."""


@dataclass(frozen=True)
class View:
    """The token view of an explanation and, where words have several pieces, its word view."""

    tokens: Strip
    words: Strip | None = None


def strip(shown: Strip, *, small: bool = False, share: float = 1.0, key: str = "t") -> str:
    """A strip of features as text, or as patches of an image; on hover the value and its share of the scale.

    share: of the scale that all methods have together; key: the first letter of the features' names.
    """
    drawn = shown.picture
    if drawn is None:
        own = f' style="--share:{share:.4f}"' if share != 1.0 else ""
        text = coloured_text(shown.marks(), key)
        return f'<p class="strip{" fragment-strip" if small else ""}"{own}>{text}</p>'
    patches = [""] * (drawn.rows * drawn.columns)
    for index, (mark, cells) in enumerate(zip(shown.marks(), drawn.cells, strict=False)):
        side = "" if mark.fraction is None else " n" if mark.fraction < 0 else " p"
        look = f'class="patch{side}" style="--a:{abs(mark.fraction or 0.0):.3f}"'
        for cell in cells:
            patches[cell] = f'<span {look} data-feature="t{index}" title="{escape(mark.tip)}"></span>'
    grid = "".join(patch or '<span class="patch"></span>' for patch in patches)
    return (
        f'<div class="picture" style="--share:{share:.4f}"><img alt="the image that is explained" '
        f'src="data:image/png;base64,{escape(drawn.png)}"><div class="grid" style="--columns:{drawn.columns};'
        f'--wide:{drawn.wide:.4f};--high:{drawn.high:.4f}">{grid}</div></div>'
    )


def legend(scale: float | None, *, outside: bool = False, known: bool = False) -> str:
    """The colour scale with zero in the middle; without a number where every strip has its own scale."""
    if scale is None:
        low, high = "strongest against", "strongest for"
        note = '<span class="own-scale">each method on its own scale</span>'
        note += '<span class="one-scale"><span>all methods in one unit on one scale</span></span>'
    else:
        low, high, note = f"against the target {number(-scale)}", f"{number(scale)} for the target", ""
    note += "<span>outlined: outside the scale</span>" if outside else ""
    note += '<span><span class="known">underlined</span>: its true value was computed</span>' if known else ""
    return f'<div class="legend"><span>{low}</span><span class="ramp"></span><span>{high}</span>{note}</div>'


def feature_table(shown: Strip, key: str = "t") -> str:
    """Features by strength, with bars around zero; the page's script sorts by any column and links rows with marks."""
    columns = [Column("#"), Column("feature"), Column("score", bars=True), Column("|score|", order="descending")]
    columns += [Column("true value", tip="leave-one-out, computed to check the scores")] if shown.known else []
    largest = max(map(abs, filter(math.isfinite, shown.scores)), default=0.0)
    largest_known = max(map(abs, shown.known.values()), default=0.0)
    rows: list[list[str | Cell]] = []
    order = shown.strongest_first()
    for i in order:
        score, feature, truth = shown.scores[i], shown.features[i], shown.known.get(i, math.nan)
        name = visible(feature.strip(" ") or feature.replace(" ", "␣")) or "(empty)"
        sizes = [Cell(score, text=aligned(score, largest))]
        sizes += [Cell(abs(score), text=aligned(abs(score), largest, signed=False))]
        sizes += [Cell(truth, text=aligned(truth, largest_known) if i in shown.known else "")] if shown.known else []
        rows.append([Cell(float(i + 1), text=str(i + 1)), name, *sizes])
    keys = [f"{key}{i}" for i in order]
    if len(rows) <= FEW:
        return table(columns, rows, keys=keys)
    first, everything = table(columns, rows[:FEW], keys=keys[:FEW]), table(columns, rows, keys=keys)
    return f'<div class="first-rows">{first}</div>' + folded(everything, f"all {len(rows)} features")


def _both(view: View, draw: Callable[[Strip, str], str]) -> str:
    """Tokens and words, drawn alike. draw: takes a strip and the first letter of its features' names."""
    return _either(draw(view.tokens, "t"), draw(view.words, "w") if view.words is not None else "")


def _either(tokens: str, words: str) -> str:
    """Two pieces of HTML, of which the page shows one; words: "" where there are none."""
    return f'<div class="tokens">{tokens}</div><div class="words">{words}</div>' if words else tokens


def _strip_and_legend(shown: Strip, key: str, *, small: bool = False) -> str:
    slider = STRENGTH_SLIDER if shown.picture is not None else ""
    below = legend(shown.scale, outside=bool(shown.outside_scale), known=bool(shown.known))
    return strip(shown, small=small, key=key) + slider + below


def explanation_page(
    title: str, view: View, *, subtitle: str = "", note: str = "", footer: str = "", more: str = ""
) -> str:
    """The page of one explanation. note: a sentence below the facts; more: further sections."""
    body = card(_facts_and_note(view, note) + _both(view, _strip_and_legend)) + more
    body += card(_both(view, feature_table), title="Features by strength")
    return page(title, body, subtitle=subtitle, words=view.words is not None, footer=footer)


def explanation_fragment(title: str, view: View, *, note: str = "", plain: str = "") -> str:
    """One explanation for a notebook cell. plain: what stands there where no script runs."""
    switch = f"<p>{WORD_SWITCH}</p>" if view.words else ""
    text = _both(view, partial(_strip_and_legend, small=True))
    return fragment(f"<h2>{escape(title)}</h2>{_facts_and_note(view, note)}{text}{switch}", plain=plain)


def _facts_and_note(view: View, note: str) -> str:
    return facts(view.tokens.facts) + (paragraph(note) if note else "")


def comparison(views: Sequence[View]) -> str:
    """Methods side by side on one text: a strip each, on its own scale or on one, with its r to each reference."""
    strips, slider = [view.tokens for view in views], ""
    largest = max((s.scale for s in strips if s.alike), default=0.0)
    rows = "".join(_method(view, largest) for view in views)
    if any(s.picture is not None for s in strips):
        rows, slider = f'<div class="pictures">{rows}</div>', STRENGTH_SLIDER
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
    """One card per text: its methods side by side, and a heat map of features by methods. notes: sentences above."""
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
    switches = (WORD_SWITCH if has_words else "") + (SCALE_SWITCH if any(len(v) > 1 for v in groups) else "")
    body = "".join(map(paragraph, notes))
    body += "".join(f'<div class="linking">{comparison(views)}</div>' for views in groups)
    body += f"<p>{switches}</p>" if switches else ""
    return fragment(body, plain=plain)

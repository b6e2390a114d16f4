"""A prompt as it was laid out, coloured by what each of its parts does to the answer beside it: page and notebook.

A click on a token of the answer recolours the prompt, a click on a part of the prompt shows which tokens it speaks for.
Without its script the page shows the whole answer.
"""

import html
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import NamedTuple

from looprop.display.data import aligned, number
from looprop.display.html import asset, card, escape, facts, mixed, page
from looprop.errors import InputError

Span = tuple[int, int]
LONGEST_TITLE = 90
UNLIKELY = 0.001  # a whole answer that is less likely is told by the mean of its tokens
SHOWN = 8  # so many of the strongest features are listed before one asks for more
LONGEST_NAME = 220
FRAME_HEIGHT = 620


@dataclass(frozen=True)
class Section:
    """A named span of the prompt: a turn by its role, a document by its name."""

    name: str
    start: int
    stop: int


@dataclass(frozen=True)
class Said:
    """A token of the answer: its text, its log-probability, and what else was likely there."""

    text: str
    logprob: float = math.nan
    alternatives: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True)
class PromptView:
    """An answer and the prompt that it was given to.

    text: the prompt as the model got it. spans: of each feature, its characters in it. names: what lists call each.
    scores: one row per feature with one number per answer token, or a single number where only the whole is known.
    turns, documents: where they stand; outside of all turns is the template. effects: scores are what the
    log-probability loses when the feature goes, so that a probability without it is shown. notes: by feature.
    """

    text: str
    spans: Sequence[Span | None]
    names: Sequence[str]
    scores: Sequence[Sequence[float]]
    answer: Sequence[Said]
    turns: Sequence[Section] = ()
    documents: Sequence[Section] = ()
    effects: bool = True
    facts: Sequence[tuple[str, str]] = field(default_factory=tuple)
    notes: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        spans, names, scores = map(len, (self.spans, self.names, self.scores))
        if not spans == names == scores:
            raise InputError(f"every feature needs a span, a name and scores: got {spans}, {names} and {scores}")
        if wrong := {len(row) for row in self.scores} - {1, len(self.answer)}:
            raise InputError(
                f"a feature has one score per answer token ({len(self.answer)}) or a single one, got {sorted(wrong)[0]}"
            )

    @property
    def by_token(self) -> bool:
        """Whether there is a score for every token of the answer."""
        return len(self.answer) > 1 and all(len(row) == len(self.answer) for row in self.scores)

    @property
    def totals(self) -> list[float]:
        return [math.fsum(row) if all(map(math.isfinite, row)) else math.nan for row in self.scores]

    @property
    def scale(self) -> float:
        """The total that gets the full colour: the largest magnitude; 0 if there is none."""
        return max((abs(total) for total in self.totals if math.isfinite(total)), default=0.0)

    @property
    def logprob(self) -> float:
        """Of the whole answer."""
        return math.fsum(token.logprob for token in self.answer)


def percent(probability: float) -> str:
    """A probability for people: two digits, and never 0 or 100 where it is not.

    >>> percent(0.4567), percent(0.00912), percent(0.99999), percent(1e-9)
    ('46 %', '0.91 %', '> 99.9 %', '1.0e−7 %')
    """
    share = 100 * probability
    if math.isnan(share):
        return "–"
    if 99.9 < share < 100:
        return "> 99.9 %"
    digits = 1 if 99.5 <= share < 100 else 0
    shown = f"{share:.{digits}f}" if share >= 10 else f"{share:.2g}" if share >= 0.01 or share == 0 else f"{share:.1e}"
    return f"{shown.replace('e-0', 'e−').replace('e-', 'e−')} %"


def likelihood(logprob: float, tokens: int) -> str:
    """The probability of an answer; of a long one, which no number tells anything of, the mean of a token.

    >>> likelihood(math.log(0.25), 2), likelihood(20 * math.log(0.5), 20)
    ('25 %', '50 % a token')
    """
    return _in_words(tokens, logprob) if math.isfinite(logprob) else "–"


def change(logprob: float, score: float, tokens: int) -> str:
    """The answer's probability with a feature and without it, both in the words of the first.

    >>> change(math.log(0.5), math.log(2), 1)
    '50 % → 25 %'
    """
    return _in_words(tokens, logprob, logprob - score) if math.isfinite(logprob) and math.isfinite(score) else ""


def _in_words(tokens: int, *logprobs: float) -> str:
    each = tokens if tokens > 1 and math.exp(min(0.0, logprobs[0])) < UNLIKELY else 1
    chances = [percent(math.exp(min(0.0, logprob / each))) for logprob in logprobs]
    return " → ".join(chances) + (" a token" if each > 1 else "")


def shortened(text: str, longest: int = LONGEST_TITLE) -> str:
    """One line of at most so many characters.

    >>> shortened("a  b\\nc", 3)
    'a …'
    """
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + " …"


def laid_out(text: str) -> str:
    """Text as HTML with its line breaks and tabs as they are, every other control character made visible."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(escape(part) for part in line.split("\t")) for line in lines)


def prompt_page(title: str, view: PromptView, *, subtitle: str = "", footer: str = "", framed: bool = False) -> str:
    """The page of an answer and its prompt. `title` is plain text."""
    beside = f'<div class="side">{_answer(view)}{_ranking(view)}</div>'
    body = f'<div class="beside"{" data-framed" if framed else ""}>{card(_prompt(view))}{beside}</div>' + _data(view)
    head = card(facts(view.facts)) if view.facts and not framed else ""
    return page(title, head + body, subtitle=subtitle, footer=footer, more="prompt")


def prompt_frame(title: str, view: PromptView, *, subtitle: str = "", height: int = FRAME_HEIGHT) -> str:
    """The page for a notebook cell, in a frame of its own: no style goes in or out, and its script touches nothing.
    height: in pixels, until the frame asks for another.
    """
    inside = html.escape(prompt_page(title, view, subtitle=subtitle, framed=True), quote=True)
    return (
        f'<div data-looprop-frame><iframe sandbox="allow-scripts" title="{escape(title)}" srcdoc="{inside}" '
        f'style="width:100%;height:{height}px;border:1px solid #8884;border-radius:10px;resize:vertical"></iframe>'
        f"<script>(() => {{{asset('theme.js')}{asset('frame.js')}}})();</script></div>"
    )


class _Segment(NamedTuple):
    start: int
    stop: int
    turn: int | None
    document: int | None
    feature: int | None


def _segments(view: PromptView) -> Iterator[_Segment]:
    """The prompt cut at every border, each piece with what it belongs to."""
    features = [span or (0, 0) for span in view.spans]
    turns, documents = ([(s.start, s.stop) for s in kind] for kind in (view.turns, view.documents))
    borders = {0, len(view.text)}.union(*(set(span) for span in (*features, *turns, *documents)))

    def holder(spans: Sequence[Span], place: int) -> int | None:
        return next((i for i, (start, stop) in enumerate(spans) if start <= place < stop), None)

    for start, stop in pairwise(sorted(border for border in borders if 0 <= border <= len(view.text))):
        yield _Segment(start, stop, holder(turns, start), holder(documents, start), holder(features, start))


def _prompt(view: PromptView) -> str:
    totals, scale, turns = view.totals, view.scale, ""
    for turn, of_turn in groupby(_segments(view), key=lambda part: part.turn):
        kind, said = "template" if view.turns else "turn plain", ""
        if turn is not None:
            kind, said = "turn", f'<div class="role">{escape(view.turns[turn].name)}</div>'
        for document, inside in groupby(of_turn, key=lambda part: part.document):
            text = "".join(_piece(view, part, totals, scale) for part in inside)
            if document is not None:
                name = f'<div class="name">{escape(view.documents[document].name)}</div>'
                text = f'<div class="document">{name}{text}</div>'
            said += text
        turns += f'<div class="{kind}">{said}</div>'
    legend = (
        f'<div class="legend"><span>speaks against the answer <b class="low">{number(-scale)}</b></span>'
        f'<span class="ramp"></span><span><b class="high">{number(scale)}</b> for it</span>'
        "<span>dimmed: always kept, no score</span></div>"
    )
    return f'<h2>The prompt</h2><div class="prompt">{turns}</div>' + legend


def _piece(view: PromptView, part: _Segment, totals: Sequence[float], scale: float) -> str:
    text = view.text[part.start : part.stop]
    if part.feature is None:
        # Lines between blocks of their own are what parts them already.
        shown = text.strip("\n") if part.document is None and view.documents else text
        return f'<span class="kept">{laid_out(shown)}</span>' if shown else ""
    left, right = len(text) - len(text.lstrip()), len(text.rstrip())
    if not right:
        return laid_out(text)
    score = totals[part.feature]
    side, colour = mixed(score / scale if scale > 0 else 0.0) if math.isfinite(score) else ("outside", "")
    mark = f'<span class="f {side}" style="{colour}" data-feature="{part.feature}">{laid_out(text[left:right])}</span>'
    return laid_out(text[:left]) + mark + laid_out(text[right:])


def _answer(view: PromptView) -> str:
    tokens = "".join(_token(i, token, view.by_token) for i, token in enumerate(view.answer))
    shown = f'<div class="answer" role="group" aria-label="answer">{tokens}</div>'
    if math.isfinite(view.logprob):
        shown += (
            f'<p class="likely" aria-live="polite">log-probability <b class="logprob">{number(view.logprob)}</b> · '
            f'probability <b class="probability">{likelihood(view.logprob, len(view.answer))}</b></p>'
        )
    if view.by_token:
        shown += (
            '<button type="button" class="whole" aria-pressed="true">Whole answer</button>'
            '<p class="hint">Choose a word of the answer, or several: the prompt shows what it came from. '
            "Arrow keys move, Escape goes back to the whole.</p>"
        )
    return card(shown, title="The answer")


def _token(index: int, token: Said, clickable: bool) -> str:
    # Line breaks alone would be a word that nobody can hit.
    text = laid_out(token.text if token.text.strip("\n") else token.text.replace("\n", "↵\n"))
    tip = f"probability {percent(math.exp(min(0.0, token.logprob)))}" if math.isfinite(token.logprob) else ""
    others = [f"{other.strip() or other!r} {percent(math.exp(min(0.0, value)))}" for other, value in token.alternatives]
    tip += f"; also likely: {', '.join(others[:3])}" if others else ""
    title = f' title="{escape(tip)}"' if tip else ""
    if not clickable:
        return f'<span class="t"{title}>{text}</span>'
    reached = 0 if index == 0 else -1  # one stop of the Tab key, arrows inside
    attributes = f'class="t" aria-pressed="false" tabindex="{reached}" data-token="{index}"{title}'
    return f'<button type="button" {attributes}>{text}</button>'


def _ranking(view: PromptView) -> str:
    totals, scale = view.totals, view.scale
    order = sorted(range(len(totals)), key=lambda i: -totals[i] if math.isfinite(totals[i]) else math.inf)
    rows = "".join(_ranked(view, i, totals[i], scale, hidden=place >= SHOWN) for place, i in enumerate(order))
    more = f'<button type="button" class="more" aria-expanded="false">All {len(order)}</button>'
    more = more if len(order) > SHOWN else ""
    heads = "score in log-probability" + (", and the answer's probability with and without it" if view.effects else "")
    return card(f'<p class="hint">{heads}</p><ol class="ranking">{rows}</ol>{more}', title="What it came from")


def _ranked(view: PromptView, index: int, score: float, scale: float, *, hidden: bool) -> str:
    effect = change(view.logprob, score, len(view.answer))
    with_and_without = f'<span class="change">{effect}</span>' if view.effects else ""
    note = f'<span class="note">{escape(view.notes[index])}</span>' if index in view.notes else ""
    share = abs(score) / scale if scale > 0 and math.isfinite(score) else 0.0
    return (
        f"<li{' hidden' if hidden else ''}>"
        f'<button type="button" class="source" data-feature="{index}" aria-pressed="false">'
        f'<span class="score">{aligned(score, scale)}</span>{with_and_without}'
        f'<span class="size {"n" if score < 0 else "p"}" style="--length:{share:.4f}"></span>'
        f'<span class="text">{escape(shortened(view.names[index], LONGEST_NAME))}</span>{note}</button></li>'
    )


def _data(view: PromptView) -> str:
    """The numbers that the script needs: no text of anybody's is among them."""

    def known(values: Iterable[float]) -> list[float | None]:
        return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values]

    scores, logprobs = [known(row) for row in view.scores], known(token.logprob for token in view.answer)
    numbers = {"scores": scores, "logprobs": logprobs, "effects": view.effects, "shown": SHOWN, "unlikely": UNLIKELY}
    return f'<script type="application/json" id="matrix">{json.dumps(numbers, allow_nan=False)}</script>'

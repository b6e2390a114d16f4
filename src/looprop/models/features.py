"""Features as people think of them, snapped to tokens: sentences, paragraphs, lines, turns, documents, matches of a
regular expression, named spans of characters.

A token belongs to the feature that holds its first visible character, so that a leading space goes with its word. A
token of nothing but space goes with the word after it, one with a line break with the line that it ends. What belongs
to no feature is always kept and gets no score: it becomes `Encoded.fixed`.
"""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from looprop.errors import InputError
from looprop.inputs import splitting
from looprop.models.encoded import Encoded, partition
from looprop.models.layout import Layout, Span, Within, checked_span

FeaturesLike = str | re.Pattern[str] | Mapping[str, Span] | Sequence[Sequence[int]]
"""A kind of feature by name, a regular expression, named spans of characters, or groups of positions."""

KINDS = ("sentence", "paragraph", "line", "turn", "document")
"""Kinds of features that are spans of a text; besides "word", "token", "chunk:16" and "regex:...", which are not."""

_SPLIT = {"sentence": splitting.sentences, "paragraph": splitting.paragraphs, "line": splitting.lines}


@dataclass(frozen=True)
class Divided:
    """An input in features. encoded: with what is always kept among its fixed positions. groups: of positions.
    names: what features are called, None where their tokens say it. spans: of characters, for the same.
    """

    encoded: Encoded
    groups: tuple[tuple[int, ...], ...]
    names: tuple[str, ...] | None = None
    spans: tuple[Span, ...] | None = None


def divide(encoded: Encoded, features: FeaturesLike, within: Within = None) -> Divided:
    """The features of an input.

    features: "token", "word", "chunk:16", "sentence", "paragraph", "line", "turn", "document", a regular expression
        (`re.compile(...)` or "regex:..."), named spans of characters, or groups of positions.
    within: what they are sought in (`layout.Within`); everything else is kept and gets no score.
    """
    region = None if within is None and encoded.layout is None else _layout(encoded).spans(within, len(encoded.text))
    pattern = _pattern(features)
    if isinstance(features, Mapping):
        return _snapped(encoded, *_named(encoded, features), region)
    if pattern is None and not (isinstance(features, str) and features in KINDS):
        encoded = _fixing(encoded, region)
        if all(i in encoded.fixed for i in range(len(encoded.names))):
            raise InputError("nothing is left to be a feature: no token lies within what was asked for")
        return Divided(encoded, partition(encoded, features))  # type: ignore[arg-type]
    _check_offsets(encoded, str(features))
    if features in ("turn", "document"):
        return _snapped(encoded, *_parts(encoded, str(features), region), region)
    spans = _spans(encoded, features if isinstance(features, str) else "", pattern, region)
    if not spans:
        raise InputError(f"no {features if pattern is None else f'match of {pattern.pattern!r}'} in this text")
    return _snapped(encoded, spans, None, region, closed=pattern is not None)


def _layout(encoded: Encoded) -> Layout:
    return encoded.layout or Layout()


def _pattern(features: FeaturesLike) -> re.Pattern[str] | None:
    if isinstance(features, re.Pattern):
        return features
    if isinstance(features, str) and features.startswith("regex:"):
        try:
            return re.compile(features.removeprefix("regex:"))
        except re.error as error:
            raise InputError(f"{features!r} is no regular expression: {error}") from error
    return None


def _check_offsets(encoded: Encoded, what: str) -> None:
    if all(span is None for span in encoded.offsets):
        raise InputError(
            f"features={what!r} needs character offsets: use a text, a fast tokenizer, or features='token'"
        )


def _named(encoded: Encoded, features: Mapping[str, Span]) -> tuple[list[Span], list[str]]:
    _check_offsets(encoded, "spans")
    if not features:
        raise InputError("no spans were given")
    shift = _layout(encoded).counted_from
    found = sorted((checked_span(span, shift, len(encoded.text)), str(name)) for name, span in features.items())
    for (before, one), (after, other) in pairwise(found):
        if before[1] > after[0]:
            raise InputError(f"the spans {one!r} and {other!r} overlap: a token can be in one feature only")
    return [span for span, _ in found], [name for _, name in found]


def _parts(encoded: Encoded, kind: str, region: list[Span] | None) -> tuple[list[Span], list[str]]:
    """Turns by their role or documents by their name, as far as they lie within what was asked for."""
    layout = _layout(encoded)
    parts = [part for part in (layout.turns if kind == "turn" else layout.documents) if part.stop > part.start]
    if not parts:
        raise InputError(f"this input has no {kind}s: make it with {'m.answer' if kind == 'turn' else 'm.context'}")
    if region is not None:
        parts = [p for p in parts if any(start < p.stop and stop > p.start for start, stop in region)]
    return [part.span for part in parts], [part.name for part in parts]


def _spans(encoded: Encoded, kind: str, pattern: re.Pattern[str] | None, region: list[Span] | None) -> list[Span]:
    """The spans of all features: never across the end of a turn, of a document or of what was asked for."""
    layout, text = _layout(encoded), encoded.text
    pieces = _cut_at(region or [(0, len(text))], layout.sections)
    if pattern is not None:
        return [span for piece in pieces for span in splitting.matches(text, pattern, piece)]
    return [span for piece in pieces for span in _SPLIT[kind](text, piece)]


def _cut_at(spans: Sequence[Span], sections: Sequence[Span]) -> list[Span]:
    """Spans cut wherever a section begins or ends."""
    places = sorted({place for section in sections for place in section})
    found: list[Span] = []
    for start, stop in spans:
        ends = [start, *(place for place in places if start < place < stop), stop]
        found += pairwise(ends)
    return found


def _snapped(
    encoded: Encoded,
    spans: Sequence[Span],
    names: Sequence[str] | None,
    region: list[Span] | None,
    *,
    closed: bool = False,
) -> Divided:
    """Every token in the span that holds its first visible character; the others are kept."""
    starts = [span[0] for span in spans]
    groups: list[list[int]] = [[] for _ in spans]
    closed = closed or names is not None  # spans that say exactly what they hold, line breaks included
    free = set(range(len(encoded.names))) - set(_fixing(encoded, region).fixed)
    for i in sorted(free):
        place = _anchor(encoded.text, encoded.offsets[i], closed=closed)
        number = -1 if place is None else bisect_right(starts, place) - 1
        if number >= 0 and place is not None and place < spans[number][1]:
            groups[number].append(i)
    if names is not None and (empty := [name for name, group in zip(names, groups, strict=True) if not group]):
        raise InputError(f"the span {empty[0]!r} holds no token of its own: tokens cannot be cut")
    # What shares its token with the feature before it is none of its own.
    kept = [number for number, group in enumerate(groups) if group]
    if not kept:
        raise InputError("nothing is left to be a feature: no token lies within what was asked for")
    inside = {i for group in groups for i in group}
    fixed = frozenset(i for i in range(len(encoded.names)) if i not in inside)
    called = tuple(encoded.text[slice(*spans[n])] if names is None else names[n] for n in kept)
    own = tuple(tuple(groups[n]) for n in kept)
    return Divided(replace(encoded, fixed=fixed), own, called, tuple(spans[n] for n in kept))


def _fixing(encoded: Encoded, region: list[Span] | None) -> Encoded:
    """The input with all positions outside of a region fixed; None is everything."""
    if region is None:
        return encoded
    _check_offsets(encoded, "within")
    outside = []
    for i, span in enumerate(encoded.offsets):
        place = _anchor(encoded.text, span, closed=True)
        if place is None or not any(start <= place < stop for start, stop in region):
            outside.append(i)
    return replace(encoded, fixed=encoded.fixed | frozenset(outside))


def _anchor(text: str, span: Span | None, *, closed: bool) -> int | None:
    """The character that says to which feature a token belongs; None for a token without any.

    closed: a line break belongs where it stands, and not to the line that it ends.
    """
    if span is None:
        return None
    start, stop = span
    visible = next((place for place in range(start, stop) if not text[place].isspace()), None)
    if visible is not None:
        return visible
    before = len(text[:start].rstrip()) - 1
    after = next((place for place in range(stop, len(text)) if not text[place].isspace()), -1)
    if "\n" in text[start:stop] and (closed or before >= 0):
        return start if closed else before
    return after if after >= 0 else max(before, 0)

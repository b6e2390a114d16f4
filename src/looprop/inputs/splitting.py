"""Texts cut into the parts that people think in: paragraphs, lines, sentences. Pure text to character spans.

The rules for sentences are our own, so that nothing is downloaded and every span can be told exactly: a full stop ends
a sentence unless it belongs to an abbreviation, an initial or the number of a list, or a small letter follows; marks of
scripts without spaces end one wherever they stand.
"""

import re
from collections.abc import Iterator, Sequence

from looprop.errors import InputError

Span = tuple[int, int]  # first character, and the first one after

_CLOSING = "\"'”’»)\\]}」』】）〉》"
# What ends one wherever it stands (Chinese, Japanese, Hindi, Arabic, ...), and what ends one where space follows.
_END = re.compile(rf"(?P<wide>[。！？｡।॥։።។။؟۔]+[.!?]*|[.!?…]+(?=[{_CLOSING}]*(?:\s|$)))(?P<close>[{_CLOSING}]*)")
_BLANK = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+")
_BREAK = re.compile(r"\n")
_BULLET = re.compile(r"(?:[-*•–]|\(?\w{1,3}[.)])\s")
_LIST_NUMBER = re.compile(r"(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})$")

# Never the end of a sentence: something that belongs to it follows.
_TITLES = frozenset(
    "mr mrs ms mx dr prof st gen rep sen gov capt cmdr lt col maj sgt rev hon pres messrs mme mlle fr sra hr vs viz "
    "cf ca e.g i.e z.b d.h u.a p.ex mt ft".split()
)
# Not the end where a number follows.
_BEFORE_NUMBERS = frozenset(
    "no nos nr c n fig figs eq eqs vol vols p pp sec secs ch chap art pt ex op para tab".split()
)
# The end only where the next word is one that sentences begin with.
_SHORT = frozenset(
    "inc ltd co corp bros llc plc jr sr esq etc al approx dept univ assn ave blvd rd jan feb mar apr jun jul aug sep "
    "sept oct nov dec mon tue wed thu fri sat sun min max est ed eds trans usw bzw m.d ph.d b.a m.a".split()
)
_STARTERS = frozenset(
    "the a an he she it they we i you this that these those his her its their our my in on at by for from with as if "
    "when while after before since although though but and or so yet however then there here what who where why how "
    "which not no some many most all both each one two another during under through also thus hence therefore "
    "meanwhile moreover furthermore today later der die das er sie es ein eine il elle le la les el los".split()
)


def paragraphs(text: str, span: Span | None = None) -> list[Span]:
    """Spans parted by blank lines, without the space around them.

    >>> paragraphs("one\\ntwo\\n\\nthree\\n")
    [(0, 7), (9, 14)]
    """
    return _parted(text, span, _BLANK)


def lines(text: str, span: Span | None = None) -> list[Span]:
    """Spans parted by line breaks.

    >>> lines("one\\n two\\n\\nthree")
    [(0, 3), (5, 8), (10, 15)]
    """
    return _parted(text, span, _BREAK)


def sentences(text: str, span: Span | None = None) -> list[Span]:
    """Spans of sentences: each with the marks and closing quotes that end it, without the space around it.

    A line break ends a sentence, too, but not within a text that is wrapped, or before a small letter.

    >>> [text[a:b] for text in ['Dr. Who paid $3.50. "Why?" he asked. See Fig. 3!'] for a, b in sentences(text)]
    ['Dr. Who paid $3.50.', '"Why?" he asked.', 'See Fig. 3!']
    """
    found: list[Span] = []
    for paragraph in paragraphs(text, span):
        for piece in _unwrapped(text, paragraph):
            found += _trimmed(text, piece, ((end, end) for end in _ends(text, piece)))
    return found


def matches(text: str, pattern: re.Pattern[str], span: Span | None = None) -> list[Span]:
    """Where a regular expression matches, and not nothing."""
    start, stop = span or (0, len(text))
    return [m.span() for m in pattern.finditer(text, start, stop) if m.end() > m.start()]


def part_of(which: object, text: str, tokens: Sequence[Span]) -> Span:
    """The tokens that are asked for, the first and the one after the last: characters "12:40" of a text, tokens 3:7 as
    a slice, or one by its number. tokens: the characters of each.

    >>> spans = [(0, 5), (5, 6), (6, 13)]
    >>> [part_of(which, "Paris, France", spans) for which in ("6:", slice(0, 2), -1)]
    [(2, 3), (0, 2), (2, 3)]
    """
    count = len(tokens)
    if isinstance(which, str) and (found := re.fullmatch(r"\s*(\d*)\s*:\s*(\d*)\s*", which)):
        start, stop = int(found[1] or 0), min(int(found[2] or len(text)), len(text))
        inside = [i for i, span in enumerate(tokens) if span[0] < stop and span[1] > start]
        part = (inside[0], inside[-1] + 1) if start < stop and inside else (0, 0)
    elif isinstance(which, slice) and which.step in (None, 1):
        part = which.indices(count)[:2]
    elif type(which) is int and -count <= which < count:
        part = (which % count, which % count + 1)
    else:
        raise InputError(f"a part of an answer is tokens, [3:7] of {count}, or characters, ['12:40'], got {which!r}")
    if not part[0] < part[1]:
        raise InputError(f"no token lies in {which!r}: there are {count} tokens and {len(text)} characters")
    return part


def _parted(text: str, span: Span | None, pattern: re.Pattern[str]) -> list[Span]:
    span = span or (0, len(text))
    return list(_trimmed(text, span, (m.span() for m in pattern.finditer(text, *span))))


def _trimmed(text: str, span: Span, cuts: Iterator[Span]) -> Iterator[Span]:
    """Split a span at the cuts and strip the space around each part."""
    start, stop = span
    for before, after in (*cuts, (stop, stop)):
        piece = text[start:before]
        if piece.strip():
            yield start + len(piece) - len(piece.lstrip()), before - len(piece) + len(piece.rstrip())
        start = after


def _unwrapped(text: str, paragraph: Span) -> list[Span]:
    """The lines of a paragraph, those put together again that were parted for width alone."""
    rows = lines(text, paragraph)
    widths = [stop - start for start, stop in rows]
    full = max(widths)
    wrapped = len(rows) >= 3 and full >= 50 and min(widths[:-1]) >= 0.7 * full
    found: list[Span] = []
    for start, stop in rows:
        goes_on = text[start].islower() or (wrapped and not _BULLET.match(text, start))
        if found and goes_on and not _BULLET.match(text, start):
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return found


def _ends(text: str, piece: Span) -> Iterator[int]:
    """The places right after each sentence of a piece but the last."""
    start = piece[0]
    for match in _END.finditer(text, *piece):
        end = match.end()
        rest = text[end : piece[1]]
        if not rest.strip():
            return
        if _ends_here(text[start : match.start()].lstrip(), match["wide"], match["close"], rest):
            yield end
            start = end


def _ends_here(before: str, mark: str, close: str, rest: str) -> bool:
    """Does a sentence end after `before`, its mark and what closes it, where `rest` follows?"""
    following = rest.lstrip()
    first = following[0]
    if mark[0] not in ".!?…":  # wide: after a closing quote the sentence that quotes may go on
        return not (close and not rest[0].isspace() and first.isalnum())
    opened = following.lstrip("\"'“‘«(¿¡[")
    if not opened or first.islower() or first in ",;:":
        return False
    if mark != "." or close:
        return not opened[0].islower()
    # What stands before the full stop, without an opening bracket or quote.
    word = before.split()[-1].lstrip("\"'“‘«([{") if before.split() else ""
    if _LIST_NUMBER.match(word) and word == before:
        return False
    if len(word) == 1 and re.match(r"[^\W\d_]\.", opened):  # one initial after the other
        return False
    return _full_stop_ends(word, re.split(r"[\s,.;:!?'’]", opened, maxsplit=1)[0])


def _full_stop_ends(word: str, after: str) -> bool:
    """Does the full stop behind a word end a sentence, where another word follows?"""
    low = word.lower()
    if low in _TITLES or (low in _BEFORE_NUMBERS and after[:1].isdigit()):
        return False
    if low in ("a.m", "p.m"):
        return True  # a small letter was dealt with
    initial = len(word) == 1 and word.isalpha() and word.isupper()
    dotted = re.fullmatch(r"(?:[^\W\d_]\.)+[^\W\d_]", word) is not None
    if initial or dotted or low in _SHORT:
        return after.lower() in _STARTERS
    return True

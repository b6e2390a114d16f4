"""What the parts of a prompt are: turns of a conversation inside a chat template, documents inside a turn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from looprop.errors import InputError, UnknownNameError

Span = tuple[int, int]
Within = str | Span | Sequence[str] | Sequence[Span] | Mapping[str, Span] | None
"""Where features are sought: "user" or another role (or several), "documents", "all", or spans of characters."""


@dataclass(frozen=True)
class Part:
    """A named span of characters of a text: a turn by its role, a document by its name."""

    name: str
    start: int
    stop: int

    @property
    def span(self) -> Span:
        """First character, and the first one after."""
        return self.start, self.stop


@dataclass(frozen=True)
class Layout:
    """The parts of a text.

    turns: what each side of a conversation says. documents: what a question is asked about. framed: does text stand
    around the turns that nobody wrote (a chat template)? counted_from: where characters are counted from when a span is
    given: the beginning of the prompt as it was given.
    """

    turns: tuple[Part, ...] = ()
    documents: tuple[Part, ...] = ()
    framed: bool = False
    counted_from: int = 0

    def spans(self, within: Within, length: int) -> list[Span] | None:
        """The spans that `within` names, in order; None for the whole text with everything that a tokenizer adds.

        Where nothing is asked for, documents if there are any, else what stands inside a chat template.
        """
        if within is None:
            parts = self.documents or (self.turns if self.framed else ())
            return [part.span for part in parts] or None
        if isinstance(within, str):
            return None if within == "all" else self._named([within])
        if isinstance(within, Mapping):
            return self._given(list(within.values()), length)
        if within and all(isinstance(part, str) for part in within):
            return self._named([str(part) for part in within])
        pair = len(within) == 2 and all(isinstance(part, int) for part in within)
        return self._given([within] if pair else list(within), length)

    def _named(self, names: list[str]) -> list[Span]:
        known: dict[str, list[Span]] = {"documents": [part.span for part in self.documents]} if self.documents else {}
        for part in (*self.turns, *self.documents):
            known.setdefault(part.name, []).append(part.span)
        for name in names:
            if name not in known:
                if not known:
                    raise InputError(
                        f"within={name!r} names a turn or a document, and this input has none: make it with m.answer "
                        "or m.context, or give spans of characters"
                    )
                raise UnknownNameError("part of the prompt", name, [*known, "all"])
        return sorted({span for name in names for span in known[name]})

    def _given(self, spans: list[Any], length: int) -> list[Span]:
        return sorted(checked_span(span, self.counted_from, length) for span in spans)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for results: turns and documents with their characters."""
        kinds = {"turns": self.turns, "documents": self.documents}
        return {kind: [[p.name, p.start, p.stop] for p in parts] for kind, parts in kinds.items()}

    @property
    def sections(self) -> list[Span]:
        """Spans that no sentence goes across."""
        return sorted(part.span for part in (*self.turns, *self.documents))


def checked_span(span: Any, shift: int, length: int) -> Span:
    """A span of characters as it was given, counted from the beginning of the text."""
    is_pair = isinstance(span, tuple | list) and len(span) == 2 and all(type(end) is int for end in span)
    if not is_pair or not 0 <= span[0] < span[1] or span[1] + shift > length:
        raise InputError(
            f"a span must be two characters (first, after the last) with 0 <= first < last <= {length - shift}, "
            f"got {span!r}"
        )
    return span[0] + shift, span[1] + shift

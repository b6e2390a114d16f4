"""One input as a model takes it, and what its positions mean to a reader."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from looprop.errors import InputError
from looprop.models.layout import Layout

# A word is a run of letters and digits, apostrophes inside included; anything else that is not space stands alone.
# Scripts that are written without spaces count every character as a word. Marks (accents, vowel signs, skin tones) stay
# with the character before them, and emoji that are joined or paired are one.
_MARK, _JOINER = "\u0300", "\u200d"
_IDEOGRAPH = r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
_SYMBOL = rf"(?:[\U0001f1e6-\U0001f1ff]{{2}}|[^\w\s]){_MARK}*"
_LETTER = rf"(?:(?!{_IDEOGRAPH})\w[{_MARK}{_JOINER}]*)"
_WORD = re.compile(rf"{_IDEOGRAPH}{_MARK}*|{_LETTER}+(?:['\u2019]{_LETTER}+)*|{_SYMBOL}(?:{_JOINER}{_SYMBOL})*")


@dataclass(frozen=True)
class Encoded:
    """One encoded input.

    inputs: the model's keyword arguments, each with a leading batch dimension of 1.
    names: what each position is called; offsets, special and word_ids as in `Explanation`.
    fixed: positions that are context and no feature (a given continuation).
    besides: names of inputs that are the same whichever positions are kept (what a decoder has said already).
    layout: what the parts of the text are, where that is known (turns of a conversation, documents).
    cut: of a text that is longer than the model takes, how many tokens are left and how many there were.
    """

    inputs: Mapping[str, Tensor]
    names: tuple[str, ...]
    text: str
    offsets: tuple[tuple[int, int] | None, ...]
    special: tuple[bool, ...]
    word_ids: tuple[int | None, ...]
    fixed: frozenset[int] = frozenset()
    besides: frozenset[str] = frozenset()
    layout: Layout | None = None
    cut: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self.names)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of all its inputs: those of one batch must be the same, or filled up to be so."""
        return [tuple(value.shape) for value in self.inputs.values()]

    def only(self, positions: Sequence[int]) -> "Encoded":
        """A text with some of its positions cut out: those after them move up."""
        kept = list(positions)
        places = {position: place for place, position in enumerate(kept)}
        return replace(
            self,
            inputs={key: value if key in self.besides else value[:, kept] for key, value in self.inputs.items()},
            names=tuple(self.names[i] for i in kept),
            offsets=tuple(self.offsets[i] for i in kept),
            special=tuple(self.special[i] for i in kept),
            word_ids=tuple(self.word_ids[i] for i in kept),
            fixed=frozenset(places[i] for i in self.fixed if i in places),
        )


def check_text(text: str, what: str = "the text") -> None:
    """Raise for a text that is no Unicode: half of a surrogate pair, as broken decoding leaves it behind."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"{what} must be Unicode, got a lone surrogate U+{ord(text[error.start]):04X} at place {error.start}: "
            "decode it anew, or replace it with text.encode('utf-8', 'replace').decode()"
        ) from None


def words_of(text: str, offsets: Sequence[tuple[int, int] | None]) -> tuple[int | None, ...]:
    """The number of the word that each token's first visible character belongs to.

    >>> words_of("it isn't bad", [None, (0, 2), (3, 5), (5, 8), (9, 12)])
    (None, 0, 1, 1, 2)
    """
    owner: dict[int, int] = {}
    for number, match in enumerate(_WORD.finditer("".join(map(_simplified, text)))):
        owner.update(dict.fromkeys(range(*match.span()), number))
    found: list[int | None] = []
    for span in offsets:
        visible = None if span is None else next((c for c in range(*span) if c in owner), None)
        if visible is None and span is not None and text[slice(*span)].strip(" ") == "" and span[1] in owner:
            visible = span[1]  # the lone space mark before a word
        found.append(None if visible is None else owner[visible])
    return tuple(found)


def _simplified(character: str) -> str:
    """Every mark as the same mark, so that a pattern can name them all."""
    is_mark = unicodedata.category(character).startswith("M") or "\U0001f3fb" <= character <= "\U0001f3ff"
    return _MARK if is_mark else character


def partition(encoded: Encoded, features: str | Sequence[Sequence[int]] = "token") -> tuple[tuple[int, ...], ...]:
    """The features of an input as groups of positions: "token", "word", "chunk:16", or groups of one's own."""
    free = [i for i in range(len(encoded)) if i not in encoded.fixed]
    if not isinstance(features, str):
        return _own_partition(encoded, features, free)
    if features in ("token", "patch"):
        return tuple((i,) for i in free)
    if features == "word":
        if all(span is None for span in encoded.offsets):
            raise InputError("words need character offsets: use a fast tokenizer, or features='token'")
        groups: list[list[int]] = []
        for i in free:
            word = encoded.word_ids[i]
            same = groups and word is not None and encoded.word_ids[groups[-1][-1]] == word
            groups[-1].append(i) if same else groups.append([i])
        return tuple(map(tuple, groups))
    match = re.fullmatch(r"chunk:(\d+)", features)
    if match and int(match[1]) >= 1:
        size = int(match[1])
        return tuple(tuple(free[start : start + size]) for start in range(0, len(free), size))
    raise InputError(
        "features must be 'token', 'word', 'chunk:N' with N >= 1, 'patch', 'sentence', 'paragraph', 'line', 'turn', "
        f"'document', 'regex:...', named spans of characters, or groups of positions, got {features!r}"
    )


def _own_partition(encoded: Encoded, groups: Sequence[Sequence[int]], free: list[int]) -> tuple[tuple[int, ...], ...]:
    seen: dict[int, int] = {}
    for number, group in enumerate(groups):
        if not len(group):
            raise InputError(f"feature {number} of the partition is empty")
        for position in group:
            if position not in free:
                raise InputError(
                    f"feature {number} of the partition names position {position}; positions run from {free[0]} to "
                    f"{free[-1]}"
                )
            if position in seen:
                raise InputError(
                    f"position {position} is in feature {seen[position]} and again in feature {number} of the partition"
                )
            seen[position] = number
    missing = [i for i in free if i not in seen]
    if missing:
        raise InputError(
            f"the partition leaves out position {', '.join(map(str, missing[:8]))} "
            f"({', '.join(encoded.names[i] for i in missing[:8])})"
        )
    return tuple(tuple(int(i) for i in group) for group in groups)

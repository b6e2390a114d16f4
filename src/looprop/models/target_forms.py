"""Targets of language models as objects, beside their short forms.

Token(" Paris") is " Paris"; Contrast(" Paris", " Lyon") is (" Paris", " Lyon"); Continuation(" Paris.") is
"continuation: Paris.". A continuation can also be given by its tokens, which are then never made anew from its text.
"""

from dataclasses import dataclass

from looprop.errors import TargetError


@dataclass(frozen=True)
class Token:
    """The logit of one token (or of one class), by its text or its number."""

    token: int | str


@dataclass(frozen=True)
class Contrast:
    """The logit of one token or class, less that of another.

    plus, minus: a class by its number or label, a token by its number or text.
    """

    plus: int | str
    minus: int | str


@dataclass(frozen=True)
class Continuation:
    """The log-probability of a whole output: of each of its tokens given those before it, summed.

    text: as it is shown, and split into tokens where none are given. ids: its tokens, as they were generated.
    first: so many of them were said before: they are context and do not count.

    >>> Continuation(" Paris")
    Continuation(text=' Paris', ids=None, first=0)
    """

    text: str
    ids: tuple[int, ...] | None = None
    first: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TargetError(f"a continuation must be a text, got {type(self.text).__name__}")
        if self.ids is not None and not 0 <= self.first < len(self.ids):
            raise TargetError(f"first must be a token of the continuation, 0 to {len(self.ids) - 1}, got {self.first}")


TargetForm = Token | Contrast | Continuation
"""A target as an object."""

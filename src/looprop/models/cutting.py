"""Texts that were longer than their model takes, and how much of them is left: results say so."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cut:
    """How many of some texts were cut (`texts` of `of`), and how many of the tokens of those are left (`kept` of
    `tokens`).

    >>> print(Cut(texts=1, of=2, kept=32, tokens=202))
    1 of 2 texts was cut to what the model takes: 32 of its 202 tokens are read.
    """

    texts: int
    of: int
    kept: int
    tokens: int

    def __str__(self) -> str:
        was, its = ("was", "its") if self.texts == 1 else ("were", "their")
        return (
            f"{self.texts:,} of {self.of:,} texts {was} cut to what the model takes: {self.kept:,} of {its} "
            f"{self.tokens:,} tokens are read."
        )


def cut_of(texts: Sequence[tuple[int, int] | None]) -> Cut | None:
    """Over all texts, each with its tokens as read and as there were; None for a text, or for all, without a cut."""
    cut = [own for own in texts if own is not None]
    return Cut(len(cut), len(texts), *map(sum, zip(*cut, strict=True))) if cut else None

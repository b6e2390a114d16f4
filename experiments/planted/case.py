"""One case: a planted model, a text for it, and the right answer by hand."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from looprop.errors import DataError

Answer = Mapping[str, int | str]
"""What each word gets, as a whole number or a fraction; a word that is not there gets nothing."""


@dataclass(frozen=True)
class PlantedCase:
    """What is explained is "yes".

    loo: what is lost when a word goes. alone: what it says when nothing else is there. shapley: its share. lesson: what
    a reader should learn from it.
    """

    model: str
    text: str
    lesson: str
    loo: Answer
    alone: Answer
    shapley: Answer

    def check(self, name: str) -> None:
        """Raise for answers about words that are not there, or that are no numbers."""
        words = self.text.lower().split()
        for what in ("loo", "alone", "shapley"):
            answer = getattr(self, what)
            if not isinstance(answer, Mapping):
                raise DataError(f"case {name!r}: {what} must map words to numbers, got {answer!r}")
            for word, value in answer.items():
                if word not in words:
                    raise DataError(f"case {name!r}: {what} is about {word!r}, which is not in {self.text!r}")
                try:
                    Fraction(value)
                except (TypeError, ValueError, ZeroDivisionError):
                    raise DataError(
                        f"case {name!r}: {what} of {word!r} must be a whole number or a fraction, got {value!r}"
                    ) from None

    def known(self, method: str) -> Answer:
        """The right answer of a method that has one: loo, alone, shapley, or both-ends, the mean of the first two."""
        if method != "both-ends":
            answer: Answer = getattr(self, method)
            return answer
        words = dict.fromkeys((*self.loo, *self.alone))
        return {w: str((Fraction(self.loo.get(w, 0)) + Fraction(self.alone.get(w, 0))) / 2) for w in words}


KNOWN = ("loo", "alone", "both-ends", "shapley")
"""Methods whose right answer is known."""


def numbers(answer: Answer, words: list[str]) -> list[float]:
    """The answer word by word.

    >>> numbers({"key": "1/2"}, ["the", "Key"])
    [0.0, 0.5]
    """
    return [float(Fraction(answer.get(word.lower(), 0))) for word in words]


def spelt(answer: Answer) -> str:
    """The answer as a text.

    >>> spelt({"not": -2, "good": "1/2", "the": 0}), spelt({})
    ('not −2, good 1/2', 'nothing')
    """
    parts = [f"{word} {str(value).replace('-', '−')}" for word, value in answer.items() if Fraction(value)]
    return ", ".join(parts) or "nothing"

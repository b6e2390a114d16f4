"""A prompt with its answer as plain data: where features, turns and documents stand, and what each token owes them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from looprop.errors import InputError

Span = tuple[int, int]
LONGEST_TITLE = 90
UNLIKELY = 0.001
"""A whole answer that is less likely is told by the mean of its tokens."""


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
    answer: the tokens. turns, documents: where they stand; outside of all turns is the template.
    effects: are scores what the log-probability loses when the feature goes? Only then a probability without it is
        shown. notes: what there is to say of some features, by number.
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
        if not len(self.spans) == len(self.names) == len(self.scores):
            raise InputError(
                f"every feature needs a span, a name and scores: got {len(self.spans)}, {len(self.names)} and "
                f"{len(self.scores)}"
            )
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
        """The score of each feature for the whole answer."""
        return [math.fsum(row) if all(map(math.isfinite, row)) else math.nan for row in self.scores]

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
    if not math.isfinite(logprob):
        return "–"
    chance = math.exp(min(0.0, logprob))
    return percent(chance) if chance >= UNLIKELY or tokens < 2 else f"{percent(math.exp(logprob / tokens))} a token"


def change(logprob: float, score: float, tokens: int) -> str:
    """The answer's probability with a feature and without it, both in the words of the first.

    >>> change(math.log(0.5), math.log(2), 1)
    '50 % → 25 %'
    """
    if not (math.isfinite(logprob) and math.isfinite(score)):
        return ""
    if math.exp(min(0.0, logprob)) >= UNLIKELY or tokens < 2:
        return f"{percent(math.exp(min(0.0, logprob)))} → {percent(math.exp(min(0.0, logprob - score)))}"
    before, after = (percent(math.exp(min(0.0, value / tokens))) for value in (logprob, logprob - score))
    return f"{before} → {after} a token"


def shortened(text: str, longest: int = LONGEST_TITLE) -> str:
    """One line of at most so many characters.

    >>> shortened("a  b\\nc", 3)
    'a …'
    """
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + " …"

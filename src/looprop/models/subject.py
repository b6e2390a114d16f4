"""A subject: a model bound to one input, one target and one partition into features."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from looprop.intercept.attention import SiteBias
from looprop.models.adapter import Adapter
from looprop.models.answer_rows import AnswerRows
from looprop.models.encoded import Encoded, partition
from looprop.models.target import Target, TargetLike

# A class token and a distillation token; more rows are a mean.
FEW = 2


@dataclass
class Values:
    """Values of the set function under one kind of removal and precision.

    by_subset: the target's value by kept positions, packed. asked, computed: how many subsets were asked for, and how
    many had to be computed.
    """

    by_subset: dict[bytes, float] = field(default_factory=dict)
    asked: int = 0
    computed: int = 0

    @property
    def saved(self) -> int:
        """Subsets that were known already."""
        return self.asked - self.computed


@dataclass
class Known:
    """What is known of a subject already, shared by every method and metric that asks.

    output: the target's value on the intact input. answer_rows: where it is read from.
    values: of the set function, by removal and precision.
    biases: what attention adds to the scores of each site, once it was sought; None where that is not known.
    """

    output: float | None = None
    answer_rows: AnswerRows | None = None
    values: dict[tuple[str, str], Values] = field(default_factory=dict)
    biases: list[SiteBias] | None = None
    biases_sought: bool = False


@dataclass(frozen=True, eq=False)
class Subject:
    """What a method explains.

    features: groups of positions; one score is asked for each.
    """

    adapter: Adapter
    encoded: Encoded
    target: Target
    features: tuple[tuple[int, ...], ...]
    known: Known = field(default_factory=Known)

    def afresh(self, **changes: Any) -> Self:
        """The same subject, or one with changes, of which nothing is known."""
        return replace(self, known=Known(), **changes)

    def alone(self) -> Self:
        """The same subject, of which only the output is known: what others asked must make no method look cheaper."""
        return replace(self, known=Known(output=self.output))

    @property
    def output(self) -> float:
        """The target's value on the intact input."""
        if self.known.output is None:
            logits = self.adapter.logits(self.encoded, positions=self.target.positions)
            self.known.output = float(self.target.value(logits[None])[0])
        return self.known.output

    def note_output(self, value: float) -> None:
        """Saves the forward pass of `output` where a method has met the value on its way."""
        if self.known.output is None:
            self.known.output = value

    @property
    def answer_rows(self) -> AnswerRows:
        """Which rows of the sequence the answer is read from."""
        if self.known.answer_rows is None:
            self.known.answer_rows = self.adapter.answer_rows(self.encoded, positions=self.target.positions)
        return self.known.answer_rows

    @property
    def rows_read(self) -> list[int]:
        """Their numbers, counted with the positions that are no features (class tokens of images)."""
        return self.answer_rows.rows(self.adapter.leading_positions(self.encoded) + len(self.encoded))

    @property
    def reads_a_part(self) -> bool:
        """Is the answer read from many rows, more than the target asks for, and yet not from all: a mean that leaves
        some out?
        """
        return not self.answer_rows.everything and len(self.rows_read) > max(FEW, self.target.positions)

    def group(self, token_scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores of features from scores of positions: a feature's score is the sum of its positions'."""
        return np.array([token_scores[list(group)].sum() for group in self.features])


def bind(
    adapter: Adapter,
    item: Any,
    *,
    target: TargetLike = None,
    features: str | Sequence[Sequence[int]] = "token",
    truncation: bool = False,
) -> Subject:
    """Encode an input, fix its target on the intact model, and split it into features."""
    encoded, resolved = adapter.resolve(adapter.encode(item, truncation=truncation), target)
    return Subject(adapter, encoded, resolved, partition(encoded, features))

"""A subject: a model bound to one input, one target and one partition into features."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looprop.models.adapter import Adapter
from looprop.models.encoded import Encoded, partition
from looprop.models.read_out import ReadOut
from looprop.models.target import Target, TargetLike

# A class token and a distillation token; more rows are a mean.
FEW = 2


@dataclass(frozen=True, eq=False)
class Subject:
    """What a method explains.

    features: groups of positions; one score is asked for each.
    memo: values of the set function that are known already, shared by every method and metric that asks.
    """

    adapter: Adapter
    encoded: Encoded
    target: Target
    features: tuple[tuple[int, ...], ...]
    memo: dict[Any, Any] = field(default_factory=dict)

    @cached_property
    def output(self) -> float:
        """The target's value on the intact input."""
        logits = self.adapter.logits(self.encoded, positions=self.target.positions)
        return float(self.target.value(logits[None])[0])

    @cached_property
    def read_out(self) -> ReadOut:
        """Which rows of the sequence the answer is read from."""
        return self.adapter.read_out(self.encoded, positions=self.target.positions)

    @property
    def read_rows(self) -> list[int]:
        """Their numbers, counted with the positions that are no features (class tokens of images)."""
        return self.read_out.rows(self.adapter.leading_positions(self.encoded) + len(self.encoded))

    @property
    def reads_a_part(self) -> bool:
        """Is the answer read from many rows, more than the target asks for, and yet not from all: a mean that leaves
        some out?
        """
        return not self.read_out.everything and len(self.read_rows) > max(FEW, self.target.positions)

    def note_output(self, value: float) -> None:
        """Saves the forward pass of `output` where a method has met the value on its way."""
        self.__dict__.setdefault("output", value)

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

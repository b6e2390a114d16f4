"""What was found out about a model on the way and need not be tried again.

Nothing here is told to us: each entry was tried on the model itself, on some input. None, or no entry, is "not tried
yet". An adapter of a changed model begins with new facts (`Adapter.renewed`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from looprop.models.answer_rows import AnswerRows
from looprop.models.positions import Positions

# What is left out or filled up may change an answer by rounding only: by this much, relative to the size of the values.
AGREEMENT = 2e-5
# On fewer positions there is too little to prove anything by.
SHORTEST_PROOF = 3


@dataclass(frozen=True)
class Situation:
    """What a proof on one input is taken to hold for: inputs of like length whose answer is read from the same rows."""

    magnitude: int
    answer_rows: AnswerRows


@dataclass
class Facts:
    """The facts about one model.

    positions: how it can be told where rows stand.
    attention: attention sites and attention layers of a forward pass.
    leading: rows of the sequence before the first feature (class tokens of images).
    answer_rows: where the last answer was read from, and of which input; None for the input where it is so for all.
    padding: does an input filled up to the length of another answer as it does alone?
    biases: can what attention adds to its scores be read off?
    bars: at which attention sites does removing a token bar its key? Some see no mask (a decoder's own, say).
    leaves_the_mean: does a removed token also leave the means over rows that the answer is read from?
    carries: can some rows be run while the others stay as they were?
    shortcuts: quicker ways of removal by name and situation: on inputs of which length did each agree with plain
        masking?
    batch_positions: how many positions fit into one batch, where memory allows fewer than is usual.
    """

    positions: Positions | None = None
    attention: tuple[int, int] | None = None
    leading: int | None = None
    answer_rows: tuple[AnswerRows, Mapping[str, Tensor] | None] | None = None
    padding: bool | None = None
    biases: bool | None = None
    bars: tuple[bool, ...] | None = None
    leaves_the_mean: bool | None = None
    carries: dict[Situation, bool] = field(default_factory=dict)
    shortcuts: dict[tuple[str, Situation], dict[int, bool]] = field(default_factory=dict)
    batch_positions: int | None = None

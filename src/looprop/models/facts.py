"""What was found out about a model on the way and need not be tried again.

Nothing here is told to us: each entry was tried on the model itself, on some input. None, or no entry, is "not tried
yet". An adapter of a changed model begins with new facts (`Adapter.renewed`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from looprop.models.answer_rows import AnswerRows
from looprop.models.positions import Positions

if TYPE_CHECKING:
    from looprop.models.program import Program

# On fewer positions there is too little to prove anything by.
SHORTEST_PROOF = 3


@dataclass(frozen=True)
class Situation:
    """What a proof on one input is taken to hold for: inputs on which the same operations run, of like length, whose
    answer is read from the same rows.
    """

    path: int
    magnitude: int
    answer_rows: AnswerRows


@dataclass
class Facts:
    """The facts about one model.

    positions: how it can be told where rows stand.
    attention: attention sites and attention layers of a forward pass.
    leading: rows of the sequence before the first feature (class tokens of images).
    answer_rows: where the answer is read from, by the sequence of operations, where that is taken to hold for all.
    moves: was it found elsewhere, after that? Then it is looked for on every input.
    programs: what kind of program the model is, by the sequence of operations.
    padding: does an input filled up to the length of another answer as it does alone?
    one_by_one: do the rows of a batch depend on each other, so that every input has to run alone?
    handed_on: does the model take an argument, by its name, be it behind `**kwargs`?
    biases: can what attention adds to its scores be read off?
    bars: at which attention sites does removing a token bar its key? Some see no mask (a decoder's own, say).
    leaves_the_mean: does a removed token also leave the means over rows that the answer is read from?
    carries: can some rows be run while the others stay as they were?
    shortcuts: quicker ways of removal by name and situation: on inputs of which length did each agree with plain
        masking?
    lost: quicker ways that were wrong once, with the reason.
    runs: how often a way was taken, by its name and the sequence of operations.
    batch_positions: how many positions fit into one batch, where memory allows fewer than is usual.
    """

    positions: Positions | None = None
    attention: tuple[int, int] | None = None
    leading: int | None = None
    answer_rows: dict[int, AnswerRows] = field(default_factory=dict)
    moves: bool = False
    programs: dict[int, Program] = field(default_factory=dict)
    padding: bool | None = None
    one_by_one: bool = False
    handed_on: dict[str, bool] = field(default_factory=dict)
    biases: bool | None = None
    bars: tuple[bool, ...] | None = None
    leaves_the_mean: bool | None = None
    carries: dict[Situation, bool] = field(default_factory=dict)
    shortcuts: dict[tuple[str, Situation], dict[int, bool]] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    runs: dict[tuple[str, int], int] = field(default_factory=dict)
    batch_positions: int | None = None

"""Text models that answer at every position, of which one place is asked for.

The place travels with the tokens, as one more input that marks it: where rows are dropped, padded or cut out, the mark
goes with its row, and the answer is read where the mark is.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from looprop.errors import InputError, ModelError
from looprop.models.answer_rows import AnswerRows
from looprop.models.checking import RAISED, named_failure, raised_as
from looprop.models.encoded import Encoded
from looprop.models.text import TextAdapter, TextLike

MARKS = "answer_marks"
"""The input that marks places: ASKED, or the bits START and END of a span; CANDIDATE where an answer may be."""
ASKED = START = 1
END = 2
CANDIDATE = 4


class PlacedAnswers(TextAdapter):
    """A model with an answer at every position."""

    def encode(self, item: TextLike, *, truncation: bool = False) -> Encoded:
        """A text or a pair of texts; an answer may stand at any token of its own."""
        encoded = super().encode(item, truncation=truncation)
        first = len(item[0]) + 1 if isinstance(item, tuple) and len(item) == 2 else 0
        marks = [CANDIDATE * self._may_hold(encoded, i, first) for i in range(len(encoded))]
        return _with_marks(encoded, torch.tensor([marks], device=self.device))

    def _may_hold(self, encoded: Encoded, position: int, first: int) -> bool:
        """May an answer stand at this position? first: where the text begins in which it has to be."""
        return not encoded.special[position]

    def marked(self, encoded: Encoded, places: Mapping[int, int]) -> Encoded:
        """The input with marks at some positions."""
        marks = encoded.inputs[MARKS].clone()
        for position, mark in places.items():
            marks[0, position] |= mark
        return _with_marks(encoded, marks)

    def candidates(self, encoded: Encoded) -> list[int]:
        """Positions at which an answer may stand."""
        found: list[int] = (encoded.inputs[MARKS][0] & CANDIDATE).nonzero()[:, 0].tolist()
        return found

    def run(self, inputs: Mapping[str, Any]) -> Any:
        """What the model returns on inputs, without the marks, which are none of its business."""
        return self.model(**{key: value for key, value in inputs.items() if key != MARKS})

    @torch.no_grad()
    def every_answer(self, encoded: Encoded) -> Any:
        """What the model returns on one intact input, at every position."""
        with raised_as(partial(named_failure, self.name), *RAISED), self.evaluating():
            return self.run(encoded.inputs)

    def row_logits(self, output: Any) -> Tensor:
        """The logits (B, T, C) that the model returned."""
        logits = getattr(output, "logits", None)
        if not isinstance(logits, Tensor) or logits.dim() != 3:
            got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise ModelError(f"{self.name} must return .logits (B, T, C), one row for every token, got {got}")
        return logits

    def place(self, marks: Tensor, mark: int) -> tuple[Tensor, Tensor]:
        """Row and column of a mark in a batch (B, R): a mark that stands twice is of a row that fills up."""
        here = (marks & mark).ne(0)
        if not here.any(1).all():
            raise InputError(
                "the token that the answer is read from was cut out of the text: use another removal than 'delete'"
            )
        return torch.arange(len(marks), device=marks.device), here.int().argmax(1)

    def answer_rows(self, encoded: Encoded, *, positions: int = 1) -> AnswerRows:
        return AnswerRows(inside=tuple((encoded.inputs[MARKS][0] & (START | END)).nonzero()[:, 0].tolist()))

    def spare_position(self, encoded: Encoded) -> int:
        """One in the middle that no answer is read from, and no separator if there is another."""
        read = self.answer_rows(encoded).inside
        every = (self.candidates(encoded), range(len(encoded)))
        free = next(left for places in every if (left := [i for i in places if i not in read]))
        return free[len(free) // 2]


def words_at(encoded: Encoded, text: str, candidates: list[int]) -> list[tuple[int, int]]:
    """First and last position of every place at which a text stands, from the beginning to the end of words."""
    found = []
    start = encoded.text.find(text)
    while start >= 0 and text:
        stop = start + len(text)
        whole = not encoded.text[:start][-1:].isalnum() and not encoded.text[stop:][:1].isalnum()
        spans = [(i, span) for i in candidates if (span := encoded.offsets[i]) is not None]
        inside = [i for i, span in spans if span[0] < stop and span[1] > start]
        if whole and inside:
            found.append((inside[0], inside[-1]))
        start = encoded.text.find(text, start + 1)
    return found


def _with_marks(encoded: Encoded, marks: Tensor) -> Encoded:
    return replace(encoded, inputs={**encoded.inputs, MARKS: marks})

"""Extractive question answering: a span of the context, by the logits of its start and its end."""

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from looprop.errors import InputError, ModelError, TargetError
from looprop.models.encoded import Encoded
from looprop.models.kinds import Head
from looprop.models.placed_answers import END, MARKS, START, PlacedAnswers, words_at
from looprop.models.prediction import Predict, Resolved
from looprop.models.target import Target, TargetLike
from looprop.models.text import TextLike
from looprop.models.trying import in_one_version

# What is read off: the sum of both logits, that of the start alone, that of the end alone.
SPAN, ONLY_START, ONLY_END = range(3)


class QuestionAnswering(PlacedAnswers):
    """A model that answers a pair (question, context) with a start and an end logit at every token."""

    target_words = "text"

    def encode(self, item: TextLike, *, truncation: bool = False) -> Encoded:
        """A question and the context that holds its answer."""
        if isinstance(item, str) or (isinstance(item, tuple) and len(item) == 1):
            raise InputError(f"{self.name} answers questions: give it (question, context), got one text")
        return super().encode(item, truncation=truncation)

    def _may_hold(self, encoded: Encoded, position: int, first: int) -> bool:
        """Only the context holds the answer."""
        span = encoded.offsets[position]
        return not encoded.special[position] and (span is None or span[0] >= first)

    @property
    def runs_rows(self) -> bool:
        """Not of models that look for the separators of the text themselves: they must not miss one."""
        return super().runs_rows and not self.arguments & {"question_lengths", "global_attention_mask"}

    def forward(self, inputs: Mapping[str, Any], *, positions: int = 1) -> Tensor:
        """Of the span that is asked for: start + end, start, end. (B, 1, 3)"""
        starts, ends = self._both(self.run(inputs))
        start, end = starts[self.place(inputs[MARKS], START)], ends[self.place(inputs[MARKS], END)]
        return torch.stack([start + end, start, end], -1)[:, None]

    def resolve(self, encoded: Encoded, target: TargetLike, predict: Predict | None = None) -> Resolved:
        """The text of the answer, `"5:7"` or `(5, 7)` for its first and last token, `("start", 5)`, `("end", 7)`, or
        None for the best span of the context.
        """
        return in_one_version(self, lambda: self._placed(encoded, target, predict or self.predict))

    def _placed(self, encoded: Encoded, target: TargetLike, predict: Predict) -> Resolved:
        starts, ends = (logits[0] for logits in self._both(self.every_answer(encoded)))  # (T,)
        first, last, read = self._best(encoded, starts, ends) if target is None else self._span(encoded, target)
        spans = [span for span in encoded.offsets[first : last + 1] if span is not None]
        words = encoded.text[spans[0][0] : spans[-1][1]] if spans else " ".join(encoded.names[first : last + 1])
        label = {SPAN: "", ONLY_START: "start at ", ONLY_END: "end at "}[read] + words
        marked = self.marked(self.marked(encoded, {first: START}), {last: END})
        return Resolved(marked, Target((read,), label, named=True), predict(marked))

    def _both(self, output: Any) -> tuple[Tensor, Tensor]:
        found = [getattr(output, f"{end}_logits", None) for end in ("start", "end")]
        if not all(isinstance(logits, Tensor) and logits.dim() == 2 for logits in found):
            raise ModelError(
                f"{self.name} must return .start_logits and .end_logits (B, T), got {type(output).__name__}; a model "
                "that answers otherwise can be given in a wrapper, see docs/how-to/own-model.md"
            )
        return found[0], found[1]  # type: ignore[return-value]

    def _best(self, encoded: Encoded, starts: Tensor, ends: Tensor) -> tuple[int, int, int]:
        """The span with the largest sum, its end not before its start."""
        own = self.candidates(encoded)
        if not own:
            raise TargetError("the context is empty: give (question, context)")
        sums = starts[own][:, None] + ends[own][None]  # (N, N)
        backwards = torch.ones_like(sums, dtype=torch.bool).tril(-1)
        first, last = divmod(int(sums.masked_fill(backwards, -torch.inf).argmax()), len(own))
        return own[first], own[last], SPAN

    def _span(self, encoded: Encoded, target: TargetLike) -> tuple[int, int, int]:
        if isinstance(target, str):
            return self._written(encoded, target)
        if isinstance(target, tuple) and len(target) == 2:
            which, place = target
            if isinstance(which, str) and which in ("start", "end"):
                position = self._position(encoded, place)
                return position, position, ONLY_START if which == "start" else ONLY_END
            if not isinstance(which, str):
                return self._ordered(encoded, which, place)
        raise TargetError(
            "a target must be the text of an answer, 'first:last' or (first, last) positions, ('start', position) or "
            f"('end', position), got {target!r}"
        )

    def _written(self, encoded: Encoded, target: str) -> tuple[int, int, int]:
        found = words_at(encoded, target.strip(), self.candidates(encoded))
        numbers = re.fullmatch(r"(\d+):(\d+)", target.strip())
        if numbers and found:
            raise TargetError(
                f"{target!r} stands in the context and could also be positions: give (first, last) as numbers"
            )
        if numbers:
            return self._ordered(encoded, int(numbers[1]), int(numbers[2]))
        if len(found) == 1:
            return (*found[0], SPAN)
        where = "stands at " + ", ".join(f"{a}:{b}" for a, b in found) if found else "does not stand in the context"
        raise TargetError(f"the answer {target!r} {where}: give its first and last position, 'first:last'")

    def _ordered(self, encoded: Encoded, first: Any, last: Any) -> tuple[int, int, int]:
        start, end = self._position(encoded, first), self._position(encoded, last)
        if start > end:
            raise TargetError(f"a span must not end before it starts, got {first}:{last}")
        return start, end, SPAN

    def _position(self, encoded: Encoded, place: Any) -> int:
        if type(place) is not int or not 0 <= place < len(encoded):
            raise TargetError(f"a position must be a number from 0 to {len(encoded) - 1}, got {place!r}")
        return place


HEADS = (
    Head(("ForQuestionAnswering",), QuestionAnswering, "AutoModelForQuestionAnswering"),
    Head(("ForQuestionAnsweringSimple",), QuestionAnswering),
)

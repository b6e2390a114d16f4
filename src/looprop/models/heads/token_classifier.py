"""Token classifiers: the label of one token."""

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from looprop.errors import TargetError
from looprop.models.encoded import Encoded
from looprop.models.kinds import Head
from looprop.models.placed_answers import ASKED, MARKS, PlacedAnswers, words_at
from looprop.models.prediction import Predict, Resolved
from looprop.models.target import Target, TargetLike, resolve_target
from looprop.models.trying import in_one_version

OUTSIDE = "o"
"""The label, in lower case, of what belongs to nothing."""


class TokenClassifier(PlacedAnswers):
    """A model that labels every token."""

    target_words = "text"
    classifies = True

    def forward(self, inputs: Mapping[str, Any], *, positions: int = 1) -> Tensor:
        """The logits (B, 1, C) of the token that is asked for."""
        return self.row_logits(self.run(inputs))[self.place(inputs[MARKS], ASKED)][:, None]

    def resolve(self, encoded: Encoded, target: TargetLike, predict: Predict | None = None) -> Resolved:
        """`"Paris=B-LOC"`, `(3, "B-LOC")`, `(3, "B-LOC", "O")` for a contrast of two labels, or None for the most
        probable label, other than O, of any token.
        """
        return in_one_version(self, lambda: self._placed(encoded, target, predict or self.predict))

    def _placed(self, encoded: Encoded, target: TargetLike, predict: Predict) -> Resolved:
        logits = self.row_logits(self.every_answer(encoded))[0]  # (T, C)
        place, wanted = self._most_probable(encoded, logits) if target is None else self._parts(encoded, target)
        found = resolve_target(wanted, logits[place], self.labels)
        label = f"{encoded.names[place].strip()}={found.label}"
        marked = self.marked(encoded, {place: ASKED})
        return Resolved(marked, Target(found.index, label, found.against, named=True), predict(marked))

    def _most_probable(self, encoded: Encoded, logits: Tensor) -> tuple[int, TargetLike]:
        chances = torch.softmax(logits, -1)
        own = self.candidates(encoded)
        outside = [index for index, label in self.labels.items() if label.lower() == OUTSIDE]
        if len(outside) < chances.shape[1]:
            chances[:, outside] = -1.0
        best = chances[own]
        place, index = divmod(int(best.argmax()), best.shape[1])
        return own[place], index

    def _parts(self, encoded: Encoded, target: TargetLike) -> tuple[int, TargetLike]:
        """The position and the label, or pair of labels, that a user named."""
        if isinstance(target, str) and "=" in target:
            word, _, label = target.rpartition("=")
            place: int | str = word
            wanted: TargetLike = label.strip()
        elif isinstance(target, tuple) and 2 <= len(target) <= 3:
            place, wanted = target[0], target[1] if len(target) == 2 else target[1:]
        else:
            raise TargetError(
                "a target must say the token and its label, such as 'Paris=B-LOC', (3, 'B-LOC') or, for a contrast, "
                f"(3, 'B-LOC', 'O'); got {target!r}"
            )
        return self._position(encoded, place), wanted

    def _position(self, encoded: Encoded, place: int | str) -> int:
        if isinstance(place, str):
            found = [first for first, _ in words_at(encoded, place.strip(), self.candidates(encoded))]
            if len(found) == 1:
                return found[0]
            where = f"stands at positions {', '.join(map(str, found))}" if found else "is no word of this text"
            raise TargetError(f"{place!r} {where}: name the token by its position, (position, label)")
        if isinstance(place, bool) or not isinstance(place, Integral) or not 0 <= place < len(encoded):
            raise TargetError(f"a token must be a word or a position from 0 to {len(encoded) - 1}, got {place!r}")
        return int(place)


HEADS = (Head(("ForTokenClassification",), TokenClassifier, "AutoModelForTokenClassification"),)

"""Masked language models: the token at the masked place."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from looprop.errors import InputError, ModelError
from looprop.models.encoded import Encoded
from looprop.models.kinds import Head
from looprop.models.placed_answers import ASKED, MARKS, PlacedAnswers
from looprop.models.prediction import Predict, Resolved
from looprop.models.target import TargetLike
from looprop.models.text import TextLike
from looprop.models.token_targets import token_target


class MaskedLanguageModel(PlacedAnswers):
    """A model that fills in a masked token: its logits at that place, one per token of the vocabulary."""

    target_words = "token"

    def encode(self, item: TextLike, *, truncation: bool = False) -> Encoded:
        """A text with one mask token in it, which stays a feature: its row is read out, its key can be barred."""
        encoded = super().encode(item, truncation=truncation)
        mask, written = (getattr(self.tokenizer, f"mask_token{end}", None) for end in ("_id", ""))
        if mask is None:
            raise ModelError(f"the tokenizer of {self.name} has no mask token: what is to be filled in cannot be said")
        places = (encoded.inputs["input_ids"][0] == mask).nonzero()[:, 0].tolist()
        if len(places) != 1:
            found = f"{len(places)} of them, at positions {', '.join(map(str, places))}" if places else "none"
            raise InputError(
                f"{self.name} fills in a masked token: the text must hold {written} once, and there is {found}; write "
                f"{written} in place of the token that is to be explained"
            )
        return self.marked(encoded, {places[0]: ASKED})

    def forward(self, inputs: Mapping[str, Any], *, positions: int = 1) -> Tensor:
        """The logits (B, 1, V) at the masked place."""
        return self.row_logits(self.run(inputs))[self.place(inputs[MARKS], ASKED)][:, None]

    def resolve(self, encoded: Encoded, target: TargetLike, predict: Predict | None = None) -> Resolved:
        """A token by id or text, a pair of tokens, or the one that the model would fill in."""
        prediction = (predict or self.predict)(encoded)
        return Resolved(encoded, token_target(target, prediction.logits[-1], self.tokenizer), prediction)


HEADS = (Head(("ForMaskedLM",), MaskedLanguageModel, "AutoModelForMaskedLM"),)

"""Causal language models: the next token, a contrast of two, or a whole continuation."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from looprop.errors import TargetError
from looprop.models.answer_rows import AnswerRows
from looprop.models.checking import tokenizer_named
from looprop.models.encoded import Encoded
from looprop.models.kinds import Head
from looprop.models.prediction import Predict, Prediction, Resolved
from looprop.models.target import Continuation, Target, TargetLike
from looprop.models.text import TextAdapter
from looprop.models.token_targets import (
    continuation_ids,
    continuation_of,
    other_with_space,
    token_target,
    token_text,
    warn_of_missing_space,
)


class CausalLanguageModel(TextAdapter):
    """A model that answers every position with the logits of the next token."""

    causal = True
    target_words = "token"
    padding_side = "left"

    def forward(self, inputs: Mapping[str, Any], *, positions: int = 1) -> Tensor:
        """The logits of the last positions; the others are not computed where the model can leave them out."""
        more: dict[str, object] = {}
        if "logits_to_keep" in self.arguments:
            more["logits_to_keep"] = positions
        if "use_cache" in self.arguments:
            more["use_cache"] = "past_key_values" in inputs
        logits: Tensor = self.model(**inputs, **more).logits
        return logits[:, -positions:]

    def answer_rows(self, encoded: Encoded, *, positions: int = 1) -> AnswerRows:
        return AnswerRows(last=positions)

    def collate(self, items: Sequence[Encoded]) -> tuple[dict[str, Tensor], Tensor]:
        """Padded on the left; positions still count from each text's first token."""
        inputs, own = super().collate(items)
        if self.positions.by_argument:
            self.positions.place(inputs, own.clamp(min=0).to(self.device))
        return inputs, own

    def masked(self, encoded: Encoded, keep: Tensor) -> dict[str, Tensor]:
        """With every position at its place: left to itself, a decoder counts only those that it may read."""
        inputs = super().masked(encoded, keep)
        if self.positions.by_argument:
            self.positions.place(inputs, torch.arange(keep.shape[1], device=keep.device).expand(len(keep), -1))
        return inputs

    def resolve(self, encoded: Encoded, target: TargetLike, predict: Predict | None = None) -> Resolved:
        """A token by id or text, a pair of tokens, `continuation:...`, or the predicted token."""
        if (wanted := continuation_of(target)) is not None:
            longer, said = self._continue(encoded, wanted)
            prediction = (predict or self.predict)(longer, positions=said.positions)
            self._mind_the_space(encoded, wanted.text if wanted.ids is None else None, said, prediction)
            return Resolved(longer, said, prediction)
        prediction = (predict or self.predict)(encoded)
        with tokenizer_named(self.name):
            found = token_target(target, prediction.logits[-1], self.tokenizer)
        self._mind_the_space(encoded, target, found, prediction)
        return Resolved(encoded, found, prediction)

    def _mind_the_space(self, encoded: Encoded, given: object, target: Target, prediction: Prediction) -> None:
        """Warn of a target whose text lacks the space that the model would have said."""
        text = given if isinstance(given, str) else ""
        other = other_with_space(self.tokenizer, text, encoded.text, target.index[0])
        if other is not None:
            warn_of_missing_space(text, target.index[0], other, prediction.logits[0])

    def _continue(self, encoded: Encoded, wanted: Continuation) -> tuple[Encoded, Target]:
        """The input extended by a continuation: context for the model, not a feature."""
        with tokenizer_named(self.name):
            ids = continuation_ids(self.tokenizer, wanted, len(self.word_embeddings))
        if self.longest is not None and len(encoded) + len(ids) > self.longest:
            raise TargetError(
                f"the text has {len(encoded)} tokens and its continuation {len(ids)}, the model takes {self.longest} "
                "together"
            )
        n, extra = len(encoded), torch.tensor([ids], device=self.device)
        inputs = {
            # A continuation is of the last token's kind, and is not masked.
            key: torch.cat([value, extra if key == "input_ids" else value[:, -1:].expand(1, len(ids))], 1)
            for key, value in encoded.inputs.items()
        }
        names = tuple(token_text(self.tokenizer, i) for i in ids)
        longer = replace(
            encoded,
            inputs=inputs,
            names=encoded.names + names,
            offsets=encoded.offsets + (None,) * len(ids),
            special=encoded.special + (False,) * len(ids),
            word_ids=encoded.word_ids + (None,) * len(ids),
            fixed=encoded.fixed | frozenset(range(n, n + len(ids))),
        )
        return longer, Target(tuple(ids[wanted.first :]), wanted.text, continuation=True)


HEADS = (
    Head(("ForCausalLM", "LMHeadModel"), CausalLanguageModel, "AutoModelForCausalLM"),
    Head(("GenerationDecoder",), CausalLanguageModel),
)

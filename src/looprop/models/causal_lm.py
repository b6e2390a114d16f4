"""Causal language models: the next token, a contrast of two, or a whole continuation."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from looprop.errors import TargetError
from looprop.models.answer_rows import AnswerRows
from looprop.models.checking import check_text
from looprop.models.encoded import Encoded
from looprop.models.target import Target, TargetLike
from looprop.models.text import TextAdapter


class CausalLanguageModel(TextAdapter):
    """A model that answers every position with the logits of the next token."""

    causal = True
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
        """The last positions."""
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

    def resolve(self, encoded: Encoded, target: TargetLike) -> tuple[Encoded, Target]:
        """A token by id or text, a pair of tokens, `continuation:...`, or the predicted token."""
        if isinstance(target, str) and target.startswith("continuation:"):
            return self._continue(encoded, target.removeprefix("continuation:"))
        logits = self.logits(encoded)[-1]
        if target is None:
            index = int(logits.argmax())
            return encoded, Target((index,), self._token(index))
        parts = target if isinstance(target, tuple) else (target,)
        if not 1 <= len(parts) <= 2:
            raise TargetError(f"a contrast is a pair (for, against), got {target!r}")
        ids = [self._token_id(part, len(logits)) for part in parts]
        if len(ids) == 1:
            return encoded, Target((ids[0],), self._token(ids[0]))
        if ids[0] == ids[1]:
            raise TargetError(f"a contrast needs two different tokens, got {target!r}")
        return encoded, Target((ids[0],), f"{self._token(ids[0])} - {self._token(ids[1])}", against=ids[1])

    def _token(self, index: int) -> str:
        return str(self.tokenizer.decode([index]))

    def _token_id(self, part: int | str, size: int) -> int:
        if isinstance(part, str):
            check_text(part, "a target")
            ids = self.tokenizer(part, add_special_tokens=False)["input_ids"]
            if len(ids) != 1:
                raise TargetError(
                    f"{part!r} is {len(ids)} tokens of this model, a target must be one; a leading space may matter"
                )
            if ids[0] == self.tokenizer.unk_token_id and part.strip() != self.tokenizer.unk_token:
                raise TargetError(f"{part!r} is not in the vocabulary of this model")
            return int(ids[0])
        if isinstance(part, bool) or not isinstance(part, Integral) or not 0 <= part < size:
            raise TargetError(f"a target token must be a text or an id from 0 to {size - 1}, got {part!r}")
        return int(part)

    def _continue(self, encoded: Encoded, text: str) -> tuple[Encoded, Target]:
        """The input extended by a continuation: context for the model, not a feature."""
        check_text(text, "a continuation")
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        if not ids:
            raise TargetError("the continuation is empty")
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
        names = tuple(self._token(i) for i in ids)
        longer = replace(
            encoded,
            inputs=inputs,
            names=encoded.names + names,
            offsets=encoded.offsets + (None,) * len(ids),
            special=encoded.special + (False,) * len(ids),
            word_ids=encoded.word_ids + (None,) * len(ids),
            fixed=frozenset(range(n, n + len(ids))),
        )
        return longer, Target(tuple(ids), text, continuation=True)

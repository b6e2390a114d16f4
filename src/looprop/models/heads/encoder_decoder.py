"""Encoder-decoders (T5, BART, ...): what is said about a source text, a token or a whole given output.

The features are the tokens of the source. What the decoder has said already, its start token and a given output, is
context as a continuation of a causal model is: it gets no score, and its embeddings are constants of every method.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from looprop.errors import ModelError, TargetError
from looprop.intercept.lookup import FirstLookUpMode
from looprop.models.adapter import Adapter
from looprop.models.answer_rows import AnswerRows
from looprop.models.encoded import Encoded
from looprop.models.heads.causal_lm import CausalLanguageModel
from looprop.models.kinds import Head
from looprop.models.prediction import Predict, Resolved
from looprop.models.target import Target, TargetLike
from looprop.models.text import TextAdapter, TextLike
from looprop.models.token_targets import continuation_ids, continuation_of, token_target

SAID = "decoder_input_ids"
"""The input that holds what the decoder has said already."""


class EncoderDecoder(TextAdapter):
    """A model whose decoder answers, token by token, what its encoder has read."""

    two_stacks = True
    target_words = "token"

    def __init__(self, model: nn.Module, tokenizer: Any, *, name: str = "") -> None:
        super().__init__(model, tokenizer, name=name)
        missing = [argument for argument in ("input_ids", SAID) if argument not in self.arguments]
        if missing:
            raise ModelError(
                f"{self.name} takes no {' and no '.join(missing)}: of encoder-decoders looprop explains those that "
                "read a text; give others in a wrapper, see docs/how-to/own-model.md"
            )
        _start_of(model, self.name)

    @property
    def start(self) -> list[int]:
        """The tokens that every output begins with; the language to translate into may be set at any time."""
        return _start_of(self.model, self.name)

    @property
    def word_embeddings(self) -> Tensor:
        """The table that the encoder looks up in."""
        # The encoder of a model with one table for both has it, too; only some can be asked for it.
        encoder = getattr(self.model, "get_encoder", lambda: self.model)()
        table = (encoder if hasattr(encoder, "get_input_embeddings") else self.model).get_input_embeddings()  # type: ignore[operator]
        weight: Tensor = table.weight
        return weight

    @property
    def runs_rows(self) -> bool:
        """The rows of two stacks are not told apart."""
        return False

    def encode(self, item: TextLike, *, truncation: bool = False) -> Encoded:
        """The source text; the decoder has said no more than its start."""
        return self._saying(super().encode(item, truncation=truncation), [])

    def _saying(self, encoded: Encoded, ids: list[int]) -> Encoded:
        said = torch.tensor([[*self.start, *ids]], device=self.device)
        return replace(encoded, inputs={**encoded.inputs, SAID: said}, besides=frozenset({SAID}))

    def forward(self, inputs: Mapping[str, Any], *, positions: int = 1) -> Tensor:
        """The logits of the decoder's last positions."""
        more = {"use_cache": False} if "use_cache" in self.arguments else {}
        with FirstLookUpMode(self.word_embeddings):
            logits = getattr(self.model(**inputs, **more), "logits", None)
        if not isinstance(logits, Tensor) or logits.dim() != 3:
            raise ModelError(f"{self.name} must return .logits (B, K, V), got {type(logits).__name__}")
        return logits[:, -positions:]

    def answer_rows(self, encoded: Encoded, *, positions: int = 1) -> AnswerRows:
        """The decoder's rows read all of the source."""
        return AnswerRows()

    def resolve(self, encoded: Encoded, target: TargetLike, predict: Predict | None = None) -> Resolved:
        """`continuation:...`, or the decoder's first token: by id or text, a pair of tokens, or the likeliest."""
        if (wanted := continuation_of(target)) is not None:
            ids = continuation_ids(self.tokenizer, wanted, len(self.word_embeddings), of_decoder=True)
            if self.longest is not None and len(self.start) + len(ids) > self.longest:
                raise TargetError(f"the output has {len(ids)} tokens, and the model takes {self.longest}")
            said = Target(tuple(ids[wanted.first :]), wanted.text, continuation=True)
            saying = self._saying(encoded, ids)
            return Resolved(saying, said, (predict or self.predict)(saying, positions=said.positions))
        prediction = (predict or self.predict)(encoded)
        return Resolved(encoded, token_target(target, prediction.logits[-1], self.tokenizer), prediction)


def _start_of(model: nn.Module, name: str) -> list[int]:
    """The tokens that every output begins with: the decoder's start, and the token that is forced after it, if any."""
    config = getattr(model, "config", None)
    sources = (getattr(model, "generation_config", None), config, getattr(config, "decoder", None))
    for kind in ("decoder_start_token_id", "bos_token_id"):
        for source in sources:
            if isinstance(start := getattr(source, kind, None), int):
                forced = getattr(sources[0], "forced_bos_token_id", None)
                forced = getattr(config, "forced_bos_token_id", None) if forced is None else forced
                return [start, forced] if isinstance(forced, int) else [start]
    raise ModelError(
        f"{name} does not say with which token its decoder starts: set model.config.decoder_start_token_id"
    )


def _with_or_without(model: nn.Module, tokenizer: Any, *, name: str = "") -> Adapter:
    """The adapter of a model that generates text: with an encoder, or, of several kinds of input, by its text alone."""
    two = bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))
    return (EncoderDecoder if two else CausalLanguageModel)(model, tokenizer, name=name)


HEADS = (Head(("ForConditionalGeneration", "ForTextToText", "MTModel", "EncoderDecoderModel"), _with_or_without),)

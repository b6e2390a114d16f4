"""What text classifiers and causal language models share: tokenizers, padding, the explained look-up."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from looprop.errors import InputError, ModelError
from looprop.intercept.lookup import LookUpMode
from looprop.models.adapter import Adapter, Altered
from looprop.models.checking import PASSED_ON, check_table, tokenizer_failed, tokenizer_named
from looprop.models.encoded import Encoded, check_text, words_of
from looprop.models.prediction import Traced
from looprop.models.version import version_of

# What a wrapper is given to see whether a mask reaches the answer.
MASK_TRIED = [1, 0, 0, 0, 1, 1]

TextLike = str | tuple[str, str]


class TextAdapter(Adapter):
    """A model that reads token ids."""

    noun = "texts"
    removals = ("attention-mask", "mask-token", "pad-token", "delete")
    padding_side = "right"

    def __init__(self, model: nn.Module, tokenizer: Any, *, name: str = "") -> None:
        super().__init__(model, name=name)
        if not callable(tokenizer):
            raise ModelError(f"a text model needs its tokenizer, got {type(tokenizer).__name__}")
        if not hasattr(model, "get_input_embeddings"):
            raise ModelError(f"{self.name} has no get_input_embeddings(): give it one that returns the word embedding")
        check_table(model, self.name)
        self.tokenizer = tokenizer
        # A wrapper is asked anew with every input. Without a mask a model reads padding like text.
        self.takes_mask = self.pads = self._takes("attention_mask", MASK_TRIED)
        self.takes_past = self.causal and "past_key_values" in self.arguments

    @property
    def word_embeddings(self) -> Tensor:
        """The table of word embeddings."""
        weight: Tensor = self.model.get_input_embeddings().weight  # type: ignore[operator]
        return weight

    @property
    def explained_weight(self) -> Tensor | None:
        """The table of word embeddings."""
        return self.word_embeddings

    @property
    def device(self) -> torch.device:
        """Where token ids go: beside the word embedding table, also when the model is spread over devices."""
        return self.word_embeddings.device

    @property
    def longest(self) -> int | None:
        """The most tokens the model takes, where it says."""
        config = getattr(self.model, "config", None)
        limit = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
        if limit is None or limit < 1:  # XLNet says -1: any length
            return None
        # RoBERTa and its kin number positions from padding_idx + 1.
        tables = (module for name, module in self.model.named_modules() if name.endswith("position_embeddings"))
        padding = (place for table in tables if (place := getattr(table, "padding_idx", None)) is not None)
        return int(limit) - next((place + 1 for place in padding), 0)

    def encode(self, item: TextLike, *, truncation: bool = False) -> Encoded:
        """A text or a pair of texts as token ids."""
        texts = (item,) if isinstance(item, str) else item
        if not isinstance(texts, tuple) or not 1 <= len(texts) <= 2 or not all(isinstance(t, str) for t in texts):
            raise InputError(f"an input must be a text or a pair of texts, got {type(item).__name__}")
        if not any(t.strip() for t in texts):
            raise InputError("the text is empty: nothing to explain")
        for text in texts:
            if not text.isascii():  # most texts are
                check_text(text)
        if "attention_mask" not in self.arguments and self.takes_others:
            self.takes_mask = self.pads = self._takes("attention_mask", MASK_TRIED)
        fast = bool(getattr(self.tokenizer, "is_fast", False))
        limit = {"truncation": True, "max_length": self.longest} if truncation and self.longest else {}
        try:
            encoding = self.tokenizer(
                *texts, return_offsets_mapping=fast, return_special_tokens_mask=True, verbose=False, **limit
            )
            ids: list[int] = encoding["input_ids"]
            tokens = self.tokenizer.convert_ids_to_tokens(ids)
        except PASSED_ON:
            raise
        except BaseException as error:  # a panic of its Rust code is no Exception
            raise tokenizer_failed(self.name, error) from error
        if not ids:
            raise InputError(f"the tokenizer makes no token of {texts[0]!r}")
        table = self.model.get_input_embeddings()  # type: ignore[operator]
        if isinstance(table, nn.Embedding) and not 0 <= min(ids) <= max(ids) < table.num_embeddings:
            raise ModelError(
                f"the tokenizer gives token {max(ids)}, and the word embedding of {self.name} has "
                f"{table.num_embeddings} rows: it is the tokenizer of another model"
            )
        if self.longest is not None and len(ids) > self.longest:
            raise InputError(
                f"the text has {len(ids)} tokens and the model takes {self.longest}: pass truncation=True to cut it"
            )
        special = tuple(bool(s) for s in encoding["special_tokens_mask"])
        offsets, text = self._offsets(encoding, texts, special, fast)
        names = tuple(text[s[0] : s[1]] if s is not None else str(t) for s, t in zip(offsets, tokens, strict=True))
        inputs = {"input_ids": torch.tensor([ids], device=self.device)}
        if self.pads:
            inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        if "token_type_ids" in encoding and self._takes("token_type_ids", [0, 1] * 3):
            inputs["token_type_ids"] = torch.tensor([encoding["token_type_ids"]], device=self.device)
        cut = self._cut(texts, len(ids)) if len(ids) == limit.get("max_length") else None
        return Encoded(inputs, names, text, offsets, special, words_of(text, offsets), cut=cut)

    def _cut(self, texts: tuple[str, ...], kept: int) -> tuple[int, int] | None:
        """How many tokens are left of a text that fills the model, and how many there are; None where all are left."""
        with tokenizer_named(self.name):
            whole = len(self.tokenizer(*texts, verbose=False)["input_ids"])
        return (kept, whole) if kept < whole else None

    def _takes(self, name: str, values: list[int]) -> bool:
        """Does it take an argument, by name or by arguments that a wrapper hands on? Tried once per version."""
        if name in self.arguments or not self.takes_others:
            return name in self.arguments
        self.ledger.renew(version_of(self))
        return self.ledger.once(("takes", name), lambda: self._heeds(name, values))

    @torch.no_grad()
    def _heeds(self, argument: str, values: list[int]) -> bool:
        """Does an argument that stands behind `**kwargs` reach the answer? Tried on a few tokens."""
        ids = torch.arange(1, len(values) + 1, device=self.device)[None] % len(self.word_embeddings)
        given = torch.tensor([values], device=self.device)
        try:
            with self.evaluating():
                without, with_it = (self.logits({"input_ids": ids, **more}) for more in ({}, {argument: given}))
        except Exception:  # it is not taken
            return False
        return without.shape == with_it.shape and not torch.equal(without, with_it)

    @staticmethod
    def _offsets(
        encoding: Any, texts: tuple[str, ...], special: Sequence[bool], fast: bool
    ) -> tuple[tuple[tuple[int, int] | None, ...], str]:
        """Character spans in the text, or in both texts joined by a line break."""
        text = "\n".join(texts)
        if not fast:
            return (None,) * len(special), text
        spans: list[tuple[int, int] | None] = []
        for i, (start, end) in enumerate(encoding["offset_mapping"]):
            second = len(texts) == 2 and encoding.sequence_ids(0)[i] == 1
            shift = len(texts[0]) + 1 if second else 0
            spans.append(None if special[i] or start == end else (start + shift, end + shift))
        return tuple(spans), text

    def collate(self, items: Sequence[Encoded]) -> tuple[dict[str, Tensor], Tensor]:
        """Several texts as one padded batch, and the positions of each row's own tokens. What does not belong to
        positions (`Encoded.besides`) has one shape in all of them.
        """
        longest = max(item.inputs["input_ids"].shape[1] for item in items)
        # What the model takes for padding, where it says; its tokenizer may have been given another.
        config = getattr(getattr(self.model, "config", None), "pad_token_id", None)
        pad = config if isinstance(config, int) else getattr(self.tokenizer, "pad_token_id", None) or 0
        inputs: dict[str, Tensor] = {}
        for key in items[0].inputs:
            fill = pad if key == "input_ids" else 0
            rows = [item.inputs[key] for item in items]
            if key not in items[0].besides:
                rows = [self._padded(row, longest, fill) for row in rows]
            inputs[key] = torch.cat(rows)
        steps = [torch.arange(item.inputs["input_ids"].shape[1])[None] for item in items]
        own = torch.cat([self._padded(step, longest, -1) for step in steps])
        return inputs, own

    def _padded(self, row: Tensor, length: int, fill: int) -> Tensor:
        missing = length - row.shape[1]
        return torch.nn.functional.pad(row, (missing, 0) if self.padding_side == "left" else (0, missing), value=fill)

    def masked(self, encoded: Encoded, keep: Tensor) -> dict[str, Tensor]:
        inputs = self.whole(encoded, len(keep))
        return {**inputs, "attention_mask": keep.to(inputs["input_ids"])}

    def replaced(self, encoded: Encoded, keep: Tensor, token: int) -> dict[str, Tensor]:
        inputs = self.whole(encoded, len(keep))
        return {**inputs, "input_ids": torch.where(keep, inputs["input_ids"], token)}

    def halved(self, encoded: Encoded, keep: Tensor) -> dict[str, Tensor]:
        other = (int(encoded.inputs["input_ids"][0, 0]) + 1) % len(self.word_embeddings)
        return self.replaced(encoded, keep, other)

    def token_id(self, kind: Literal["mask-token", "pad-token"]) -> int:
        token = getattr(self.tokenizer, f"{kind.replace('-', '_')}_id", None)
        if token is None:
            raise InputError(f"the tokenizer of {self.name} has no {kind.replace('-', ' ')}: use another removal")
        return int(token)

    @property
    def runs_rows(self) -> bool:
        """Where rows can be told their places."""
        return self.positions.can_be_given

    def at_rows(self, encoded: Encoded, rows: Tensor, *, read: Tensor | None = None) -> Altered:
        """Their tokens, with their places given from outside."""
        batch = self.whole(encoded, len(rows))
        batch = {k: value if k in encoded.besides else value.gather(1, rows) for k, value in batch.items()}
        if read is not None and "attention_mask" in batch:
            batch["attention_mask"] = read.to(batch["attention_mask"])
        return batch, self.positions.place(batch, rows)

    def explained_values(self, encoded: Encoded) -> Tensor:
        return self.word_embeddings.detach()[encoded.inputs["input_ids"]]

    def baseline(self, values: Tensor, kind: Literal["zero", "space", "pad", "mask"]) -> Tensor:
        """Zero, or the embedding of a token at every position; of padding where a space is no token."""
        if kind == "zero":
            return torch.zeros_like(values)
        space = self.tokenizer.encode(" ", add_special_tokens=False)[:1] if kind == "space" else []
        kind = "pad" if kind == "space" and not space else kind
        token = space[0] if space else getattr(self.tokenizer, f"{kind}_token_id", None)
        if token is None:
            raise InputError(f"the tokenizer has no {kind} token: use baseline='zero'")
        return self.word_embeddings.detach()[token].expand_as(values)

    def at_values(self, encoded: Encoded, values: Tensor) -> Altered:
        """Other word embeddings (B, T, D), as the look-up hands them out."""

        def other(found: Tensor) -> Tensor:
            self._check_look_up(found, values.shape[:2])
            return values.clone()  # models may add to the look-up in place

        return self.whole(encoded, len(values)), LookUpMode(self.word_embeddings, other)

    def explained(self, traced: Traced, readout: str) -> Tensor:
        """The look-up of the word embeddings (B, T, D), or the sum with what is added to it."""
        found = traced.tape.explained
        self._check_look_up(found, traced.inputs["input_ids"].shape)
        return found if readout == "word" else super().explained(traced, readout)

    def _check_look_up(self, found: Tensor, wanted: Sequence[int]) -> None:
        """Raise for a model that looks up other things than one vector for each token of each text, in that order."""
        if tuple(found.shape[:2]) != tuple(wanted) or found.dim() != 3:
            raise ModelError(
                f"{self.name} looks its word embeddings up as {tuple(found.shape)} where ({wanted[0]}, {wanted[1]}, "
                "width) is expected: it adds positions of its own (prompts, padding to a window) or puts time first, "
                "so that it is not known which row belongs to which token. Use 'loo', which needs no embeddings"
            )

    def token_scores(self, relevance: Tensor) -> Tensor:
        """Summed over the embedding dimension: (B, T, D) -> (B, T)."""
        return relevance.sum(-1)

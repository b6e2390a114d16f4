"""A token of the vocabulary as a target: what language models, encoder-decoders and masked models are asked for."""

import warnings
from functools import partial
from numbers import Integral
from typing import Any

from torch import Tensor

from looprop.errors import TargetError
from looprop.models.encoded import check_text
from looprop.models.target import Continuation, Target, TargetLike, choose

CONTINUATION = "continuation:"
"""What begins a target that is a whole output, given as text."""


def token_target(target: TargetLike, logits: Tensor, tokenizer: Any) -> Target:
    """A token by id or text, a pair of tokens, or None for the likeliest. logits: (V,) of the intact input."""
    one: Any = target[0] if isinstance(target, tuple) and len(target) == 1 else target
    find = partial(_token_id, tokenizer, size=len(logits))
    return choose(one, logits, find, partial(token_text, tokenizer), "tokens")


def token_text(tokenizer: Any, index: int) -> str:
    """A token as it is shown."""
    return str(tokenizer.decode([index]))


def continuation_of(target: TargetLike) -> Continuation | None:
    """A target that is a whole output; None of any other."""
    if isinstance(target, str) and target.startswith(CONTINUATION):
        return Continuation(target.removeprefix(CONTINUATION))
    return target if isinstance(target, Continuation) else None


def continuation_ids(tokenizer: Any, wanted: Continuation, size: int, *, of_decoder: bool = False) -> list[int]:
    """The tokens of a whole output, without any that the tokenizer would add; as generated where they are known.

    size: of the vocabulary. of_decoder: some tokenizers have other pieces for what a decoder says than for what an
    encoder reads.
    """
    if wanted.ids is not None:
        if unknown := [i for i in wanted.ids if not 0 <= i < size]:
            raise TargetError(f"the continuation has token {unknown[0]}, and the vocabulary ids from 0 to {size - 1}")
        return list(wanted.ids)
    check_text(wanted.text, "a continuation")
    given = {"text_target": wanted.text} if of_decoder else {"text": wanted.text}
    ids: list[int] = tokenizer(**given, add_special_tokens=False)["input_ids"]
    if not ids:
        raise TargetError("the continuation is empty")
    return ids


def _token_id(tokenizer: Any, part: int | str, size: int) -> int:
    if isinstance(part, str):
        check_text(part, "a target")
        ids = tokenizer(part, add_special_tokens=False)["input_ids"]
        if len(ids) != 1:
            raise TargetError(
                f"{part!r} is {len(ids)} tokens of this model, a target must be one; a leading space may matter"
            )
        if ids[0] == tokenizer.unk_token_id and part.strip() != tokenizer.unk_token:
            raise TargetError(f"{part!r} is not in the vocabulary of this model")
        return int(ids[0])
    if isinstance(part, bool) or not isinstance(part, Integral) or not 0 <= part < size:
        raise TargetError(f"a target token must be a text or an id from 0 to {size - 1}, got {part!r}")
    return int(part)


def other_with_space(tokenizer: Any, text: str, before: str, first: int) -> int | None:
    """The first token of a text with a space in front, where that is another word-like token and may have been meant.

    before: what stands before it. first: its first token as it was given.
    """
    if not text or not text[0].isalnum() or not before or before[-1].isspace():
        return None
    ids: list[int] = tokenizer(f" {text}", add_special_tokens=False)["input_ids"]
    if not ids or ids[0] == first or not token_text(tokenizer, ids[0]).strip():
        return None
    return ids[0]


def warn_of_missing_space(text: str, first: int, other: int, logits: Tensor) -> None:
    """Warn where the token with the space is the likelier one. logits: (V,) at the place of the first token."""
    own, meant = ((int((logits > logits[i]).sum()) + 1) for i in (first, other))
    if meant < own:
        warnings.warn(
            f"the target {text!r} begins without a space, and its first token has rank {own} here; with the space, "
            f"{' ' + text!r}, it has rank {meant}: write the space if that is meant",
            stacklevel=2,
        )

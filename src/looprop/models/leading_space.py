"""In most vocabularies " Paris" is one token and "Paris" another: who leaves the space out is told what that means."""

import warnings
from typing import Any

from torch import Tensor

from looprop.models.token_targets import token_text


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

"""Scores that know nothing of the model, to put a correlation with leave-one-out in proportion: a method must beat
them. Random scores are the third of them: the method `random`.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from looprop.errors import InputError
from looprop.naming import one_of

YARDSTICKS = ("position", "length")
"""The names of all yardsticks: scores that know nothing of the model."""

# What tokenizers write before a piece that goes on with a word (WordPiece) or begins one (byte-level BPE,
# SentencePiece).
MARKERS = ("##", "Ġ", "▁")


def yardstick(name: str, *, features: Sequence[str], special: Sequence[bool] | None = None) -> NDArray[np.float64]:
    """The scores of the yardstick of that name, one per feature.

    "position": 0 first; r is positive if later features matter more, negative if earlier ones do.
    "length": the number of characters, tokenizer markers and surrounding blanks left out; special tokens have none.

    >>> yardstick("length", features=["[CLS]", "play", "##ing", "[SEP]"], special=[True, False, False, True]).tolist()
    [0.0, 4.0, 3.0, 0.0]
    """
    if one_of("yardstick", name, YARDSTICKS) == "position":
        return np.arange(len(features), dtype=np.float64)
    flags = [False] * len(features) if special is None else special
    if len(flags) != len(features):
        raise InputError(f"special must have one entry per feature: {len(features)} features, got {len(flags)}")
    return np.array([0.0 if skip else len(_bare(text)) for text, skip in zip(features, flags, strict=True)])


def _bare(feature: str) -> str:
    for marker in MARKERS:
        if feature.startswith(marker) and len(feature) > len(marker):
            return feature.removeprefix(marker).strip()
    return feature.strip()

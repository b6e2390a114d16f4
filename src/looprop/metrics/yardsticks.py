"""Scores that know nothing of the model, to put a correlation with leave-one-out in proportion: a method must beat
them. Random scores are the third of them: the method `random`.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from looprop.errors import InputError, UnknownNameError

YARDSTICKS = ("position", "length")
"""The names of all yardsticks: scores that know nothing of the model."""

# What tokenizers write before a piece that goes on with a word (WordPiece) or begins one (byte-level BPE,
# SentencePiece).
MARKERS = ("##", "Ġ", "▁")


def position_scores(count: int) -> NDArray[np.float64]:
    """The position of each feature, 0 first: r is positive if later features matter more, negative if earlier ones do.

    >>> position_scores(3).tolist()
    [0.0, 1.0, 2.0]
    """
    return np.arange(count, dtype=np.float64)


def length_scores(features: Sequence[str], special: Sequence[bool] | None = None) -> NDArray[np.float64]:
    """The number of characters of each feature, tokenizer markers and surrounding blanks left out; special tokens have
    none.

    >>> length_scores(["[CLS]", "play", "##ing", "[SEP]"], [True, False, False, True]).tolist()
    [0.0, 4.0, 3.0, 0.0]
    """
    flags = [False] * len(features) if special is None else special
    if len(flags) != len(features):
        raise InputError(f"special must have one entry per feature: {len(features)} features, got {len(flags)}")
    return np.array(
        [0 if skip else len(_bare(feature)) for feature, skip in zip(features, flags, strict=True)], dtype=np.float64
    )


def yardstick(name: str, *, features: Sequence[str], special: Sequence[bool] | None = None) -> NDArray[np.float64]:
    """The scores of the yardstick of that name, one per feature: "position" or "length".

    >>> yardstick("length", features=["so", "good"]).tolist()
    [2.0, 4.0]
    """
    match name:
        case "position":
            return position_scores(len(features))
        case "length":
            return length_scores(features, special)
    raise UnknownNameError("yardstick", name, YARDSTICKS)


def _bare(feature: str) -> str:
    for marker in MARKERS:
        if feature.startswith(marker) and len(feature) > len(marker):
            return feature.removeprefix(marker).strip()
    return feature.strip()

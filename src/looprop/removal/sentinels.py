"""Which variants of a run are also computed plainly and alone, and what a disagreement is."""

from zlib import crc32

import torch
from torch import Tensor

from looprop.models.agreement import AGREEMENT, least_rounding, rounding

# A quicker way is taken only where it agrees with plain masking to AGREEMENT, relative to the size of the values, and
# to this share of what the removals change: a way that forgets something is wrong by about as much.
SHARE = 1e-3
# A plain pass costs more than this share of a run of fewer variants: then it is spent on every so many-th run only, of
# programs that do the same with every input; others are run plainly.
FEW_VARIANTS, EVERY = 20, 8


def sentinels(rows: Tensor, *, new: bool) -> list[int]:
    """The variants (M, T) that are also computed plainly: drawn by what they are, so that a run repeats itself.

    Every fourth run takes an end instead; a run of a kind that is new takes both ends besides.
    """
    drawn = crc32(rows.numpy().tobytes())
    one = drawn // 8 % len(rows) if drawn % 4 else (0, len(rows) - 1)[drawn // 4 % 2]
    return sorted({one, 0, len(rows) - 1} if new else {one})


def allowed_error(size: float, change: float, dtype: torch.dtype) -> float:
    """How far a quicker way may be from plain masking, for logits of a size that removals change by so much."""
    return min(rounding(size, dtype, relative=AGREEMENT), max(SHARE * change, least_rounding(size, dtype)))

"""How far two explanations of one input are apart.

Scores are compared relative to the largest of them, never one by one: a method that gives a token a billionth of the
top score has said that it does not matter, and a billionth more or less does not matter either.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from looprop.metrics import pearson

Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Agreement:
    """Explanations of several inputs, before and after.

    r: mean over inputs of Pearson's r, of those where it is defined; lowest_r: the lowest. change: the largest relative
    change of any input. top: the share of inputs whose top feature changes. refused: why there is nothing to compare;
    the numbers are NaN then.
    """

    r: float = math.nan
    lowest_r: float = math.nan
    change: float = math.nan
    top: float = math.nan
    refused: str = ""


def relative_change(before: Scores, after: Scores) -> float:
    """max |after - before| / max(|before|, |after|), 0 where all scores are 0.

    >>> relative_change(np.array([2.0, 0.0]), np.array([1.0, 0.5]))
    0.5
    """
    size = max(float(np.abs(before).max()), float(np.abs(after).max()))
    return float(np.abs(after - before).max()) / size if size else 0.0


def top_changes(before: Scores, after: Scores, tolerance: float) -> bool:
    """Whether the score that is largest in magnitude is another one.

    What was as large as the top, up to the tolerance, may take its place.

    >>> top_changes(np.array([1.0, -3.0]), np.array([1.0, -0.5]), 1e-6)
    True
    """
    top = int(np.abs(after).argmax())
    size = np.abs(before)
    return bool(size[top] < size.max() * (1.0 - tolerance))


def agreement(before: Sequence[Scores], after: Sequence[Scores], tolerance: float) -> Agreement:
    """Compare explanations input by input."""
    pairs = list(zip(before, after, strict=True))
    defined = [r for a, b in pairs if not math.isnan(r := pearson(a, b))]
    return Agreement(
        r=float(np.mean(defined)) if defined else math.nan,
        lowest_r=min(defined, default=math.nan),
        change=max(relative_change(a, b) for a, b in pairs),
        top=sum(top_changes(a, b, tolerance) for a, b in pairs) / len(pairs),
    )

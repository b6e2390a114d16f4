"""Removal curves, mean over examples: the target while more and more features go, in the order of each method."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from looprop.display import Line
from looprop.evaluation.summary import by_method
from looprop.running.parts import Row

POINTS = 21
"""From nothing removed to everything but one feature."""
NAMED = 5
"""So many of the best methods have a colour of their own, beside leave-one-out and random scores."""
CURVES = {
    "morf_curve": ("Most relevant first", "mean of the target: the lower the better, what matters went early"),
    "lerf_curve": ("Least relevant first", "mean of the target: the higher the better, what matters stayed"),
}


def mean_curves(rows: Sequence[Row], name: str, order: Sequence[str]) -> list[Line]:
    """One line per method that has such curves. name: "morf_curve" or "lerf_curve"; order: methods, the best first.

    Inputs differ in length: the share of features removed is what they have in common, and between two steps the line
    is straight.
    """
    share = np.linspace(0.0, 1.0, POINTS)
    found = by_method([row for row in rows if not row["error"] and len(row.get(name, ()))])
    strong = {*[method for method in order if method in found][:NAMED], "loo", "random"}
    return [
        Line(
            method,
            share.tolist(),
            np.mean([_curve(row, name, share) for row in found[method]], axis=0).tolist(),
            strong=method in strong,
        )
        for method in order
        if method in found
    ]


def _curve(row: Row, name: str, share: NDArray[np.float64]) -> NDArray[np.float64]:
    values = [row["output"], *row[name]]  # after 0, 1, ... features
    removed = np.arange(len(values)) / max(1, len(values) - 1)
    return np.asarray(np.interp(share, removed, values), dtype=np.float64)

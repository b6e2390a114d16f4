"""What every method says of one case."""

import math

import numpy as np
from numpy.typing import NDArray

from looprop.errors import LoopropError
from looprop.measure import ask
from looprop.methods.registry import make_method
from looprop.metrics import pearson
from looprop.models.loading import adapt
from looprop.models.subject import bind
from looprop.running.parts import Row
from looprop.study import Spec, Task, planted_model

from .case import KNOWN, PlantedCase, numbers

SAME = 1e-6
"""Scores that differ by less are the same: hard attention leaves 1e-10 to what it does not look at."""


def measure_planted(spec: Spec, task: Task) -> list[Row]:
    """The scores of each method, how far they are from the answers that are known, and r to both references, words
    only. A method that refuses a model says why.
    """
    case: PlantedCase = task.item
    adapter = adapt(*planted_model(case.model), name=f"planted {case.model!r}")
    words = list(bind(adapter, case.text, target="yes").encoded.names[1:])  # [CLS] is no word
    truth = {method: np.array(numbers(case.known(method), words)) for method in KNOWN}
    rows: list[Row] = []
    for method in spec.methods:
        subject = bind(adapter, case.text, target="yes")
        (found,) = ask(make_method(method), [subject], catch=(LoopropError,), record=True)
        scores = np.full(len(words) + 1, np.nan) if found.scores is None else found.scores
        rows.append(
            {
                "example": task.id,
                "method": method,
                "words": " ".join(words),
                "output": subject.output,
                **{f"r to {name}": _agreement(scores[1:], truth[name]) for name in ("loo", "shapley")},
                **{f"error to {name}": _apart(scores[1:], truth[name]) for name in KNOWN},
                "scores": scores.tolist(),
                "error": "" if found.raised is None else str(found.raised),
            }
        )
    return rows


def _agreement(scores: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """r, where both tell words apart by more than rounding."""
    if np.isnan(scores).any() or np.ptp(scores) <= SAME or np.ptp(truth) <= SAME:
        return math.nan
    return pearson(scores, truth)


def _apart(scores: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """The largest difference at a word."""
    return float(np.abs(scores - truth).max())

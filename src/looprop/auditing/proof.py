"""The proof that a rewrite computes the same function: the same logits and the same gradients on all inputs.

Logits alone would not do. A rewrite that cuts a path off from the gradient gives the same logits, and every method that
propagates would be blamed for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from looprop.models.subject import Subject

# What counts as the same function, relative to the largest entry, by the precision of the model. Rounding stays far
# below, and a change of the function far above.
SAME_FUNCTION = {torch.float64: 1e-9, torch.float32: 1e-4}


@dataclass(frozen=True)
class Behaviour:
    """The behaviour of a model on one input: its logits, and the gradient of the target at the explained tensor."""

    logits: Tensor
    gradient: Tensor


def behaviour(subjects: Sequence[Subject]) -> list[Behaviour]:
    """Logits and gradients on every input."""
    found = []
    for subject in subjects:
        with subject.adapter.traced(subject.encoded.inputs, positions=subject.target.positions) as traced:
            (gradient,) = traced.tape.gradients(traced.value(subject.target), [traced.tape.explained])
        found.append(Behaviour(traced.logits.detach(), gradient))
    return found


def deviations(before: Sequence[Behaviour], after: Sequence[Behaviour]) -> tuple[float, float]:
    """The largest deviations of logits and of gradients after a rewrite over all inputs, each relative to the largest
    entry; NaN if one of them is.
    """
    pairs = list(zip(before, after, strict=True))
    logits = np.max([_deviation(b.logits, a.logits) for b, a in pairs])
    return float(logits), float(np.max([_deviation(b.gradient, a.gradient) for b, a in pairs]))


def _deviation(before: Tensor, after: Tensor) -> float:
    if before.shape != after.shape:
        return float("nan")
    size = before.abs().max()
    return float((after - before).abs().max() / (size if size > 0 else 1.0))

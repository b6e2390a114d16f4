"""The proof that a rewrite computes the same function: the same logits and the same gradients on all inputs.

Logits alone would not do. A rewrite that cuts a path off from the gradient gives the same logits, and every method that
propagates would be blamed for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Proof:
    """The largest deviations of logits and gradients over all inputs, each relative to the largest entry."""

    logits: float
    gradient: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """Whether both are rounding errors; NaN is not."""
        return self.logits <= self.tolerance and self.gradient <= self.tolerance


def behaviour(subjects: Sequence[Subject]) -> list[Behaviour]:
    """Logits and gradients on every input."""
    return [_behaviour(subject) for subject in subjects]


def _behaviour(subject: Subject) -> Behaviour:
    with subject.adapter.traced(subject.encoded.inputs, positions=subject.target.positions) as traced:
        (gradient,) = traced.tape.gradients(traced.value(subject.target), [traced.tape.explained])
    return Behaviour(traced.logits.detach(), gradient)


def prove(before: Sequence[Behaviour], after: Sequence[Behaviour]) -> Proof:
    """Compare what a model did before and after a rewrite."""
    tolerance = SAME_FUNCTION.get(before[0].logits.dtype, SAME_FUNCTION[torch.float32])
    logits = [_deviation(b.logits, a.logits) for b, a in zip(before, after, strict=True)]
    gradients = [_deviation(b.gradient, a.gradient) for b, a in zip(before, after, strict=True)]
    return Proof(_largest(logits), _largest(gradients), tolerance)


def _deviation(before: Tensor, after: Tensor) -> float:
    if before.shape != after.shape:
        return float("nan")
    size = before.abs().max()
    return float((after - before).abs().max() / (size if size > 0 else 1.0))


def _largest(values: Sequence[float]) -> float:
    """The largest, or NaN if one of them is: a deviation that is not a number is no small one."""
    return float(torch.tensor(values, dtype=torch.float64).max())

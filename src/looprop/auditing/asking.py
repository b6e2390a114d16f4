"""Ask a model and methods before and after a rewrite, and compare: is it the same function, and the same explanation?

The same function is one with the same logits and the same gradients on all inputs. Logits alone would not do: a rewrite
that cuts a path off from the gradient gives the same logits, and every method that propagates would be blamed for it.

Scores are compared relative to the largest of them, never one by one: to a method that gives a token a billionth of the
top score, the token does not matter, and a billionth more or less does not matter either.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from looprop.auditing.result import RewriteEffect
from looprop.errors import LoopropError
from looprop.measure import Outcome, ask
from looprop.methods.base import Method
from looprop.metrics import pearson
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
    """The largest deviations of logits and of gradients over all inputs, relative to the largest entry, or NaN."""
    pairs = list(zip(before, after, strict=True))
    logits = np.max([_deviation(b.logits, a.logits) for b, a in pairs])
    return float(logits), float(np.max([_deviation(b.gradient, a.gradient) for b, a in pairs]))


def _deviation(before: Tensor, after: Tensor) -> float:
    if before.shape != after.shape:
        return float("nan")
    size = before.abs().max()
    return float((after - before).abs().max() / (size if size > 0 else 1.0))


CAUGHT = (LoopropError, RuntimeError, ValueError, TypeError, IndexError, NotImplementedError)
Scores = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MethodAnswer:
    """The results of one method, one for each input, or the error of the first that failed."""

    found: tuple[Outcome, ...] = ()
    error: str = ""

    @property
    def scores(self) -> list[Scores]:
        """The scores of every input."""
        return [one.scores for one in self.found if one.scores is not None]

    def first(self, count: int | None) -> "MethodAnswer":
        """The answer on the first inputs; None: on all."""
        return replace(self, found=self.found[:count])


def ask_all(
    methods: Mapping[str, Method], subjects: Sequence[Subject], *, batch: bool = True
) -> dict[str, MethodAnswer]:
    """Ask every method about subjects with empty caches, so that no method uses another's work.

    batch: all inputs in one call; otherwise one call for each.
    """
    return {name: _answer(method, [subject.alone() for subject in subjects], batch) for name, method in methods.items()}


def _answer(method: Method, subjects: Sequence[Subject], batch: bool) -> MethodAnswer:
    # The longest first: what has to be proven of a model once per length is then proven once.
    order = sorted(range(len(subjects)), key=lambda i: -len(subjects[i].encoded))
    found: dict[int, Outcome] = {}
    for group in [order] if batch else [[i] for i in order]:
        # Warnings are kept back: the residual of integrated gradients is one of the checks.
        found |= dict(zip(group, ask(method, [subjects[i] for i in group], catch=CAUGHT, record=True), strict=True))
        if (error := found[group[0]].raised) is not None:
            return MethodAnswer(error=" ".join(str(error).split()) or type(error).__name__)
    return MethodAnswer(tuple(found[i] for i in range(len(subjects))))


def relative_change(before: Scores, after: Scores) -> float:
    """max |after - before| / max(|before|, |after|), 0 where all scores are 0.

    >>> relative_change(np.array([2.0, 0.0]), np.array([1.0, 0.5]))
    0.5
    """
    size = max(float(np.abs(before).max()), float(np.abs(after).max()))
    return float(np.abs(after - before).max()) / size if size else 0.0


def top_changes(before: Scores, after: Scores, tolerance: float) -> bool:
    """Whether another feature has the score that is largest in magnitude.

    A score as large as the top, up to the tolerance, may take its place.

    >>> top_changes(np.array([1.0, -3.0]), np.array([1.0, -0.5]), 1e-6)
    True
    """
    top = int(np.abs(after).argmax())
    size = np.abs(before)
    return bool(size[top] < size.max() * (1.0 - tolerance))


def agreement(
    before: Sequence[Scores], after: Sequence[Scores], tolerance: float, method: str = "", rewrite: str = ""
) -> RewriteEffect:
    """Compare the explanations of a method input by input, as they are and after a rewrite."""
    pairs = list(zip(before, after, strict=True))
    defined = [r for a, b in pairs if not math.isnan(r := pearson(a, b))]
    return RewriteEffect(
        method,
        rewrite,
        r=float(np.mean(defined)) if defined else math.nan,
        lowest_r=min(defined, default=math.nan),
        change=max(relative_change(a, b) for a, b in pairs),
        top=sum(top_changes(a, b, tolerance) for a, b in pairs) / len(pairs),
    )

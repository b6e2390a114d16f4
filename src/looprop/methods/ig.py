"""Integrated gradients (Sundararajan et al. 2017).

IG_i = (x_i - x'_i) * integral over a in [0, 1] of df/dx_i at x' + a (x - x'), here by the midpoint rule.
"""

import warnings
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from looprop.errors import InputError, LoopropError, ModelError, UnknownNameError
from looprop.methods.base import Attribution, Method
from looprop.models.subject import Subject

Baseline = Literal["zero", "pad", "mask"]

# A residual above this share of the output change is worth a warning.
RESIDUAL = 0.05


class IntegratedGradientsWarning(UserWarning):
    """The integral is not exact enough."""


class IntegratedGradients(Method):
    """A straight line from a baseline to the word embeddings; positions are kept. Cost: 3 per step, and 1 for the
    baseline.

    baseline: zero embeddings, or those of the padding or mask token (texts); zero for tensors and images.
    keep_special: special tokens are the same at both ends of the line, and get no score.
    tokens: how many positions one internal batch may hold.
    """

    name = "ig"
    title = "Integrated gradients"
    short = "IG"
    summary = "integrated gradients from zero embeddings, midpoint rule"
    cost = "3 * steps + 1"
    kind = "share"
    coarse = "ig[steps=5]"
    order = 41
    complete = True
    limits = """
        *Claims:* the change of the logit along a straight line from a baseline, shared out completely.

        Do not trust it

        - more than its baseline: zero embeddings are no text, and another baseline gives another map;
        - when it warns of a residual: use more steps;
        - as an estimate of leave-one-out: complete and invariant under rewriting does not mean close to removal.
        """

    def __init__(
        self, *, steps: int = 50, baseline: Baseline = "zero", keep_special: bool = False, tokens: int = 2048
    ) -> None:
        if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
            raise InputError(f"steps must be an integer >= 1, got {steps!r}")
        if baseline not in get_args(Baseline):
            raise UnknownNameError("baseline", str(baseline), get_args(Baseline))
        if not isinstance(tokens, int) or tokens < 1:
            raise InputError(f"tokens must be an integer >= 1, got {tokens!r}")
        self.steps, self.baseline, self.keep_special, self.tokens = steps, baseline, keep_special, tokens

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        """One line per subject."""
        with torch.inference_mode(False):  # the caller may be inside it, and gradients are needed
            return [self._attribute(subject) for subject in subjects]

    def _attribute(self, subject: Subject) -> Attribution:
        adapter = subject.adapter
        line = _Line(subject, self.baseline, self.keep_special)
        middles = (torch.arange(self.steps, dtype=torch.float64) + 0.5) / self.steps
        size = max(1, self.tokens // len(subject.encoded)) if adapter.takes_batches else 1
        total = torch.zeros_like(line.end)
        with adapter.evaluating():
            # The start of the line runs along with the first batch, where batches are possible.
            known = [] if adapter.takes_batches else [line.value_at_start()]
            for first in range(0, self.steps, size):
                gradient, found = line.gradient(middles[first : first + size], with_start=not known)
                total += gradient / self.steps
                known += found
        (start,) = known
        scores = subject.group(_positions(subject, line.difference * total))
        change = subject.output - start
        residual = change - float(scores.sum())
        if abs(residual) > RESIDUAL * abs(change):
            warnings.warn(
                f"integrated gradients leaves {abs(residual):.3g} of an output change of {change:.3g} unexplained: "
                f"use more than {self.steps} steps{self._hint(subject)}",
                IntegratedGradientsWarning,
                stacklevel=4,
            )
        return Attribution(scores, cost=3.0 * self.steps + 1.0, residual=residual, details={"baseline_output": start})

    def _hint(self, subject: Subject) -> str:
        other = self.baseline == "zero" and subject.adapter.explained_weight is not None
        return ", or baseline='pad' or 'mask' if the model normalises its embeddings" if other else ""


def _positions(subject: Subject, relevance: Tensor) -> NDArray[np.float64]:
    scores: NDArray[np.float64] = subject.adapter.token_scores(relevance)[0].double().cpu().numpy()
    return scores


class _Line:
    """The straight line from the baseline to the input, at the word embeddings or at the input tensor itself."""

    def __init__(self, subject: Subject, baseline: Baseline, keep_special: bool) -> None:
        self.subject, encoded = subject, subject.encoded
        # A table may scale what it hands out (Gemma): the line runs between look-ups, and scaling is linear.
        self.end = subject.adapter.explained_values(encoded)
        self.start = subject.adapter.baseline(self.end, baseline)
        kept = [i in encoded.fixed or (keep_special and special) for i, special in enumerate(encoded.special)]
        if any(kept):  # of a text, (1, T, D)
            self.start = torch.where(torch.tensor(kept, device=self.end.device)[None, :, None], self.end, self.start)
        self.difference = self.end - self.start

    def value_at_start(self) -> float:
        """The target at the start of the line."""
        with torch.no_grad():
            return float(self._run(self.start)[0])

    def gradient(self, places: Tensor, *, with_start: bool) -> tuple[Tensor, list[float]]:
        """The gradient summed over some places of the line, (1, ...), and the target at its start if that is to run
        along.
        """
        along = self.start[: int(with_start)]
        with torch.enable_grad():
            points = self._points(places).requires_grad_()
            try:
                values = self._run(torch.cat([along, points]))
                (gradient,) = torch.autograd.grad(values[len(along) :].sum(), points)
            except (AssertionError, RuntimeError) as error:
                if isinstance(error, (LoopropError, torch.OutOfMemoryError)):
                    raise
                said = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
                raise ModelError(
                    f"{self.subject.adapter.name} cannot be differentiated as it predicts ({said}): use 'loo', which "
                    "needs no gradient"
                ) from error
        return gradient.sum(0, keepdim=True), values[: len(along)].tolist()

    def _points(self, places: Tensor) -> Tensor:
        shaped = places.to(self.end).reshape(-1, *[1] * (self.end.dim() - 1))
        return (self.start + shaped * self.difference).detach()

    def _run(self, points: Tensor) -> Tensor:
        subject = self.subject
        inputs, moved = subject.adapter.at_values(subject.encoded, points)
        # What the caller encoded in inference mode cannot be kept for a backward pass.
        inputs = {key: value.clone() if value.is_inference() else value for key, value in inputs.items()}
        with moved:
            return subject.target.value(subject.adapter.forward(inputs, positions=subject.target.positions))

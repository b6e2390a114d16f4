"""Integrated gradients (Sundararajan et al. 2017).

IG_i = (x_i - x'_i) * integral over a in [0, 1] of df/dx_i at x' + a (x - x'), here by the midpoint rule.
"""

import warnings
from collections.abc import Sequence
from typing import get_args

import torch
from torch import Tensor

from looprop.errors import InputError, UnknownNameError
from looprop.methods.base import Attribution, Method
from looprop.methods.parts.line import Baseline, Line
from looprop.methods.parts.players import whole_number
from looprop.models.subject import Subject

# A residual above this share of the output change is worth a warning.
RESIDUAL = 0.05
# More steps than this are not taken for a tolerance: what is left then comes from a jump, and no number of steps helps.
MOST = 1500


class IntegratedGradientsWarning(UserWarning):
    """The integral is not exact enough."""


class IntegratedGradients(Method):
    """A straight line from a baseline to the word embeddings; positions are kept. Cost: 3 per step, and 1 for the
    baseline.

    baseline: zero embeddings, or those of the padding or mask token (texts); zero for tensors and images.
    tolerance: how much of the output change may stay unexplained. Where more does, three times as many steps are taken,
        again and again, up to 1500; each time the steps so far are among them, so that none is computed twice. None
        takes `steps` and no more.
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
    complete = True

    def __init__(
        self,
        *,
        steps: int = 50,
        baseline: Baseline = "zero",
        keep_special: bool = False,
        tokens: int = 2048,
        tolerance: float | None = None,
    ) -> None:
        if baseline not in get_args(Baseline):
            raise UnknownNameError("baseline", str(baseline), get_args(Baseline))
        number = isinstance(tolerance, int | float) and not isinstance(tolerance, bool)
        if tolerance is not None and not (number and 0.0 < tolerance < 1.0):
            raise InputError(f"tolerance must be a number between 0 and 1, or None, got {tolerance!r}")
        self.steps, self.tokens = whole_number("steps", steps, 1), whole_number("tokens", tokens, 1)
        self.baseline, self.keep_special, self.tolerance = baseline, keep_special, tolerance

    def passes(self, subject: Subject) -> float:
        """Three for each step, one for the baseline."""
        return 3.0 * self.steps + 1.0

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        """One line per subject."""
        with torch.inference_mode(False):  # the caller may be inside it, and gradients are needed
            return [self._attribute(subject) for subject in subjects]

    def _attribute(self, subject: Subject) -> Attribution:
        adapter = subject.adapter
        with adapter.evaluating():
            line = Line(subject, self.baseline, self.keep_special)
            start, total, steps = line.value_at_start(), torch.zeros_like(line.end), self.steps
            places = (torch.arange(steps, dtype=torch.float64) + 0.5) / steps
            while True:
                total += self._along(line, places)
                by_position = adapter.token_scores(line.difference * (total / steps))[0]
                scores = subject.group(by_position.double().cpu().numpy())
                change = subject.output - start
                residual = change - float(scores.sum())
                if self.tolerance is None or abs(residual) <= self.tolerance * abs(change) or 3 * steps > MOST:
                    break
                # The middles of thirds, but for those of the middle thirds, which are known.
                steps *= 3
                places = (torch.arange(steps, dtype=torch.float64) + 0.5) / steps
                places = places[torch.arange(steps) % 3 != 1]
        if abs(residual) > (self.tolerance or RESIDUAL) * abs(change):
            warnings.warn(
                f"integrated gradients leaves {abs(residual):.3g} of an output change of {change:.3g} unexplained: "
                f"use more than {steps} steps{self._hint(subject)}",
                IntegratedGradientsWarning,
                stacklevel=4,
            )
        details = {"baseline_output": start, "steps": steps}
        return Attribution(scores, cost=3.0 * steps + 1.0, residual=residual, details=details)

    def _along(self, line: Line, places: Tensor) -> Tensor:
        """The gradient summed over places of the line, in batches that fit."""
        subject = line.subject
        size = max(1, self.tokens // subject.length) if subject.adapter.takes_batches else 1
        total = torch.zeros_like(line.end)
        for first in range(0, len(places), size):
            total += line.gradient(places[first : first + size])
        return total

    def _hint(self, subject: Subject) -> str:
        other = self.baseline == "zero" and subject.adapter.explained_weight is not None
        return ", or baseline='pad' or 'mask' if the model normalises its embeddings" if other else ""

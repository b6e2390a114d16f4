"""Integrated gradients (Sundararajan et al. 2017).

IG_i = (x_i - x'_i) * integral over a in [0, 1] of df/dx_i at x' + a (x - x'), here by the midpoint rule.
"""

import math
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import pad

from looprop.errors import InputError, LoopropError, ModelError
from looprop.intercept.attention import AttentionCall
from looprop.intercept.fewer_rows import ReadRowsMode
from looprop.methods.base import Attribution, Method
from looprop.methods.parts.players import whole_number
from looprop.models.agreement import rounding
from looprop.models.checking import out_of_memory
from looprop.models.ledger import BATCHES
from looprop.models.subject import Subject
from looprop.naming import one_of
from looprop.propagation.location import what_failed
from looprop.removal.trust import Disagreement, attention_sites_of, booked, check_version, guarded, program

Baseline = Literal["zero", "pad", "mask"]
SHORTEST = 4  # on fewer positions there is too little to leave out
GRADIENT_AGREEMENT = 1e-4  # gradients with and without the cut may differ by this share of the largest


class StraightLine:
    """From the baseline to the input, at the word embeddings or at the input tensor itself."""

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
        """The target at the start of the line. Raise where its end is not the model's prediction."""
        with torch.no_grad():
            if not self._cut:  # else the end was compared when the cut was
                with booked(self.subject, passes=1):
                    self.subject.check_route(float(self._run(self.end, 0)[0]), "at the end of the line")
            value = float(self._run(self.start, self._cut)[0])
        if not math.isfinite(value):
            wrong = "answers the baseline with NaN or an infinite number: there is no change to share out"
            raise ModelError(f"{self.subject.adapter.name} {wrong}")
        return value

    def gradient(self, places: Tensor, *, with_end: bool = False) -> Tensor:
        """The gradient summed over some places of the line, (1, ...).

        with_end: the end runs along in their batch; raise `Disagreement` where it is answered otherwise there.
        """
        found, values = self._gradient(places, self._cut, with_end=with_end)
        if with_end and self.subject.differs(float(values[-1])):
            raise Disagreement("an input is answered otherwise in a batch than alone")
        if not torch.isfinite(found).all():
            raise ModelError(f"{self.subject.adapter.name} has gradients that are NaN or infinite along the line")
        return found

    def _gradient(self, places: Tensor, cut: int, *, with_end: bool = False) -> tuple[Tensor, Tensor]:
        """The same with the last layer cut, or not (0), and the target's values on the way."""
        with torch.enable_grad():
            shaped = places.to(self.end).reshape(-1, *[1] * (self.end.dim() - 1))
            points = (self.start + shaped * self.difference).detach()
            points = (torch.cat([points, self.end.detach()]) if with_end else points).requires_grad_()
            try:
                values = self._run(points, cut)
                (gradient,) = torch.autograd.grad(values[: len(places)].sum(), points)
            except Exception as error:
                if isinstance(error, LoopropError) or out_of_memory(error):
                    raise
                adapter, said = self.subject.adapter, f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
                raise ModelError(
                    f"{what_failed(error, adapter.model) or adapter.name} cannot be differentiated as it predicts "
                    f"({said}): use 'loo', which needs no gradient"
                ) from error
        return gradient.sum(0, keepdim=True), values.detach()

    def _run(self, points: Tensor, cut: int) -> Tensor:
        subject, count = self.subject, len(points)
        if cut and 1 < count == points.shape[1]:
            # As many points as rows: in a model with time first, one could be taken for the other.
            points = torch.cat([points, self.start])
        inputs, moved = subject.adapter.at_values(subject.encoded, points)
        # What the caller encoded in inference mode cannot be kept for a backward pass.
        inputs = {key: value.clone() if value.is_inference() else value for key, value in inputs.items()}
        with moved, self._fewer_rows(points.shape[:2], cut):
            logits = subject.adapter.logits(inputs, positions=subject.target.positions)
        return subject.target.value(logits[:count])

    def _fewer_rows(self, shape: torch.Size, cut: int) -> AbstractContextManager[object]:
        if not cut:
            return nullcontext()
        read = self.subject.answer_rows
        rows = slice(0, read.first) if read.first else slice(-read.last, None)
        return ReadRowsMode(cut, shape, lambda hidden: hidden[:, rows], partial(_asked_by, rows))

    @cached_property
    def _cut(self) -> int:
        """After how many attention sites rows are left out that nobody reads; 0 for none."""
        subject = self.subject
        if subject.adapter.explained_weight is None or subject.length < SHORTEST or subject.adapter.two_stacks:
            return 0
        sites, read = attention_sites_of(subject), subject.answer_rows
        if not sites or not (read.first or read.last) or subject.reads_a_part or program(subject).decides:
            return 0
        return guarded(
            subject,
            f"line, cut at {sites}",
            prove=partial(self._agrees, sites),
            run=partial(self._ends_right, sites),
            plain=lambda _: 0,
        )

    def _agrees(self, sites: int) -> bool:
        """Does the middle of the line have the same gradient with the last layer cut?"""
        middle = torch.tensor([0.5], dtype=torch.float64)
        wanted, value = self._gradient(middle, 0)
        try:
            found, other = self._gradient(middle, sites)
        except Exception:  # a model that takes no such rows
            return False
        apart = float((found - wanted).abs().max())
        same = float((value - other).abs().max()) <= rounding(self.subject.size, self.subject.dtype)
        return same and apart <= GRADIENT_AGREEMENT * float(wanted.abs().max())

    def _ends_right(self, sites: int) -> int:
        """The sites again; raise `Disagreement` where the end of the line, cut so, is not the model's prediction. Asked
        of every input: from which row an answer is read may go by token ids.
        """
        with booked(self.subject, passes=1), torch.no_grad():
            found = float(self._run(self.end, sites)[0])
        if self.subject.differs(found):
            raise Disagreement(f"the end of the line gives {found:.6g}, the model itself {self.subject.output:.6g}")
        return sites


def _asked_by(rows: slice, call: AttentionCall, last: bool) -> Tensor:
    """Attention; at the last site only some rows ask, and the others get nothing."""
    length, keys = call.query.shape[-2], call.key.shape[-2]
    if not last or length != keys:
        return call.run()
    mask = call.added(call.query) if call.causal else call.mask
    if mask is not None and mask.shape[-2] == length:
        mask = mask[..., rows, :]
    mixed = call.but(query=call.query[..., rows, :], mask=mask, causal=False).run()
    missing = length - mixed.shape[-2]
    return pad(mixed, (0, 0, 0, missing) if rows.start == 0 else (0, 0, missing, 0))


RESIDUAL = 0.05  # a residual above this share of the output change is worth a warning
# More steps than this are not taken for a tolerance: what is left then comes from a jump, and no number of steps helps.
MOST = 1500


class IntegratedGradientsWarning(UserWarning):
    """The integral is not exact enough."""


class IntegratedGradients(Method):
    """A straight line from a baseline to the word embeddings; positions are kept.

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
        number = isinstance(tolerance, int | float) and not isinstance(tolerance, bool)
        if tolerance is not None and not (number and 0.0 < tolerance < 1.0):
            raise InputError(f"tolerance must be a number between 0 and 1, or None, got {tolerance!r}")
        self.steps, self.tokens = whole_number("steps", steps, 1), whole_number("tokens", tokens, 1)
        self.baseline = one_of("baseline", baseline, get_args(Baseline))
        self.keep_special, self.tolerance = keep_special, tolerance

    def passes(self, subject: Subject) -> float:
        return 3.0 * self.steps + 1.0

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        with torch.inference_mode(False):  # the caller may be inside it, and gradients are needed
            return [self._attribute(subject) for subject in subjects]

    def _attribute(self, subject: Subject) -> Attribution:
        adapter = subject.adapter
        with adapter.evaluating():
            line = StraightLine(subject, self.baseline, self.keep_special)
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
        check_version(subject)
        if abs(residual) > (self.tolerance or RESIDUAL) * abs(change):
            left = f"{abs(residual):.3g} of an output change of {change:.3g} unexplained"
            hint = ""
            if self.baseline == "zero" and adapter.explained_weight is not None:
                hint = ", or baseline='pad' or 'mask' if the model normalises its embeddings"
            said = f"integrated gradients leaves {left}: use more than {steps} steps{hint}"
            warnings.warn(said, IntegratedGradientsWarning, stacklevel=4)
        details = {"baseline_output": start, "steps": steps}
        return Attribution(scores, cost=3.0 * steps + 1.0, residual=residual, details=details)

    def _along(self, line: StraightLine, places: Tensor) -> Tensor:
        """The gradient summed over places of the line, in batches that fit."""
        subject = line.subject
        size = max(1, self.tokens // subject.length) if subject.adapter.takes_batches else 1

        def summed(size: int) -> Tensor:
            total = torch.zeros_like(line.end)
            for first in range(0, len(places), size):
                total += line.gradient(places[first : first + size], with_end=first == 0 and size > 1)
            return total

        if size == 1:
            return summed(1)
        return guarded(subject, BATCHES, prove=None, run=lambda: summed(size), plain=lambda _: summed(1))

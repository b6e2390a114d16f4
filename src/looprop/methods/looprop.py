"""looprop: propagate the leave-one-out effect itself, the attention block taken as one unit.

LOO_i ~ f(x) - f(x; key i barred in the rows S_i) + sum over other rows j of < df/dO_j , dO_j(i) >

From one backward pass (no exact rows) to exact leave-one-out (all rows) in one family.
"""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from looprop.errors import InputError, UnknownNameError
from looprop.methods.base import Attribution, Method
from looprop.methods.exact_rows import can_carry, choose_rows, exact_rows, read_out
from looprop.methods.removal_effect import Backward, FirstOrder, first_order, member_matrix
from looprop.models.subject import Subject


class LoopProp(Method):
    """The removal effect through a few exact rows and, to first order, through all others.

    rows: how many rows of each variant are carried exactly, the read-out row included; "all" is exact leave-one-out.
    refine: how many of the largest estimates are replaced by true leave-one-out values.
    backward: what carries the first-order part: the ordinary gradient, or the rules of LRP.
    """

    name = "looprop"
    summary = "the leave-one-out effect itself, exact in a few rows, first order in the rest"

    def __init__(self, *, rows: int | Literal["all"] = 8, refine: int = 0, backward: Backward = "gradient") -> None:
        if rows != "all" and (not isinstance(rows, int) or isinstance(rows, bool) or rows < 0):
            raise InputError(f"rows must be an integer >= 0 or 'all', got {rows!r}")
        if not isinstance(refine, int) or isinstance(refine, bool) or refine < 0:
            raise InputError(f"refine must be an integer >= 0, got {refine!r}")
        if backward not in get_args(Backward):
            raise UnknownNameError("backward", str(backward), get_args(Backward))
        self.rows, self.refine, self.backward = rows, refine, backward

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        """One estimate per subject."""
        return [self._attribute(subject) for subject in subjects]

    def _attribute(self, subject: Subject) -> Attribution:
        start = first_order(subject, self.backward)
        scores, cost, details = estimate(subject, start, self.rows)
        return Attribution(scores, cost=3.0 + cost, details=details)


def estimate(subject: Subject, start: FirstOrder, rows: int | Literal["all"]) -> tuple[NDArray[np.float64], float, dict[str, Any]]:
    """The estimate with some rows exact: scores, its cost beyond the first pass, and what was done."""
    member = member_matrix(subject).to(start.effect.device)  # (F, T)
    length = member.shape[1]
    counted = ~member.T  # (T, F): rows of the feature itself are read by nobody once its keys are barred ...
    counted[read_out(subject)] = True  # ... but for the read-out
    effect = start.effect.double() * counted
    width = min(length, length if rows == "all" else rows)
    details: dict[str, Any] = {"rows": width}
    if width == 0 or not can_carry(subject, start.sites):
        details["rows"] = 0
        return effect.sum(0).cpu().numpy(), 0.0, details
    width = max(width, len(read_out(subject)))
    chosen = choose_rows(subject, start.size, member, width)
    carried = torch.zeros_like(counted).scatter_(0, chosen.T, True)
    exact = start.output - exact_rows(subject, start.sites, chosen, member)
    scores = exact + (effect * ~carried).sum(0)
    return scores.cpu().numpy(), width * len(subject.features) / length, details

"""looprop: propagate the leave-one-out effect itself, the attention block taken as one unit.

LOO_i ~ f(x) - f(x; keys of i barred in the rows S_i) + sum over other rows j of < df/dO_j , dO_j(i) >

From one backward pass (no exact rows) to exact leave-one-out (all rows) in one family. What its estimates say is large is
then replaced by true leave-one-out values, the read-out token's first: there a linear view fails most.
"""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from looprop.errors import InputError, UnknownNameError
from looprop.methods.base import Attribution, Method
from looprop.methods.budget import FIRST_PASS, Share, share_budget
from looprop.methods.exact_rows import can_carry, choose_rows, exact_rows, read_out
from looprop.methods.removal_effect import Backward, FirstOrder, first_order, member_matrix
from looprop.models.subject import Subject
from looprop.removal.set_function import SetFunction

Scores = NDArray[np.float64]


class LoopProp(Method):
    """The removal effect through a few exact rows and, to first order, through all others.

    rows: how many rows per variant, on average, are carried exactly, the read-out row included; "all" is exact leave-one-out.
    refine: how many estimates are replaced by true leave-one-out values.
    backward: what carries the first-order part: the ordinary gradient, or the rules of LRP.
    budget: instead of rows and refine: forward passes in all (>= 3), or a share of leave-one-out's cost (below 1).
    """

    name = "looprop"
    summary = "the leave-one-out effect itself, exact in a few rows, first order in the rest"

    def __init__(
        self, *, rows: int | Literal["all"] = 8, refine: int = 0, backward: Backward = "gradient", budget: float | None = None
    ) -> None:
        if rows != "all" and (not isinstance(rows, int) or isinstance(rows, bool) or rows < 0):
            raise InputError(f"rows must be an integer >= 0 or 'all', got {rows!r}")
        if not isinstance(refine, int) or isinstance(refine, bool) or refine < 0:
            raise InputError(f"refine must be an integer >= 0, got {refine!r}")
        if backward not in get_args(Backward):
            raise UnknownNameError("backward", str(backward), get_args(Backward))
        if budget is not None and not (0 < budget < 1 or budget >= FIRST_PASS):
            raise InputError(f"budget must be a share of leave-one-out below 1 or at least {FIRST_PASS:g} passes, got {budget!r}")
        self.rows, self.refine, self.backward, self.budget = rows, refine, backward, budget

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        """One estimate per subject."""
        return [self._attribute(subject) for subject in subjects]

    def _attribute(self, subject: Subject) -> Attribution:
        share = Share(self.rows, self.refine)
        if self.budget is not None:
            share = share_budget(self.budget, len(subject.features))
        value = SetFunction(subject, removal="attention-mask")
        if share.exact:
            return _exact(value)
        start = first_order(subject, self.backward)
        scores, cost, details = estimate(subject, start, share.rows)
        refined, details["own_r"] = refine_estimates(subject, value, scores, share.refine)
        cost += FIRST_PASS + min(share.refine, len(scores))
        return Attribution(refined, cost=cost, details={**details, "refined": min(share.refine, len(scores))})


def _exact(value: SetFunction) -> Attribution:
    """Leave-one-out itself, where the budget allows it."""
    count = len(value.subject.features)
    scores = value(np.ones((1, count), dtype=bool)) - value(~np.eye(count, dtype=bool))
    return Attribution(scores, cost=float(count), details={"rows": "all", "refined": count, "own_r": 1.0})


def estimate(subject: Subject, start: FirstOrder, rows: int | Literal["all"]) -> tuple[Scores, float, dict[str, Any]]:
    """The estimate with some rows exact: scores, its cost beyond the first pass, and what was done."""
    member = member_matrix(subject).to(start.effect.device)  # (F, T)
    features, length = member.shape
    counted = ~member.T  # (T, F): rows of the feature itself are read by nobody once its keys are barred ...
    counted[read_out(subject)] = True  # ... but for the read-out
    effect = start.effect.double() * counted
    if rows == 0 or not can_carry(subject, start.sites):
        if rows == "all":
            raise InputError(f"rows of {subject.adapter.name} cannot be carried on their own: use method='loo', or refine=")
        return effect.sum(0).cpu().numpy(), 0.0, {"rows": 0.0}
    if rows == "all":
        chosen = [torch.arange(length, device=member.device)] * features
    else:
        chosen = choose_rows(subject, start.size, member, rows * features)
    carried = torch.zeros_like(counted)
    for feature, own in enumerate(chosen):
        carried[own, feature] = True
    scores = start.output - exact_rows(subject, start.sites, chosen, member) + (effect * ~carried).sum(0)
    pairs = float(carried.sum())
    return scores.cpu().numpy(), pairs / length, {"rows": pairs / features}


def refine_estimates(subject: Subject, value: SetFunction, scores: Scores, count: int) -> tuple[Scores, float]:
    """Replace the read-out's own estimate and then the largest ones by true values; r of those estimates with the truth."""
    count = min(count, len(scores))
    if count == 0:
        return scores, float("nan")
    rows = set(read_out(subject)) if not subject.adapter.leading_positions(subject.encoded) else set()
    reads = np.array([any(p in rows for p in group) for group in subject.features])
    order = np.lexsort((np.arange(len(scores)), -np.abs(scores), ~reads))[:count]
    keep = np.ones((count, len(scores)), dtype=bool)
    keep[np.arange(count), order] = False
    truth = subject.output - value(keep)
    refined = scores.copy()
    refined[order] = truth
    ready = count >= 3 and np.ptp(scores[order]) > 0 and np.ptp(truth) > 0
    return refined, float(np.corrcoef(scores[order], truth)[0, 1]) if ready else float("nan")

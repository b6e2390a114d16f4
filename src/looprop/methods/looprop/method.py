"""looprop: propagate the leave-one-out effect itself, the attention block taken as one unit.

LOO_i ~ f(x) - f(x; keys of i barred in the rows S_i) + sum over other rows j of < df/dO_j , dO_j(i) >

From one backward pass (no exact rows) to exact leave-one-out (all rows) in one family. Some features get their true
leave-one-out value instead, the read-out token first: there a linear view fails most.
"""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from looprop.errors import InputError, UnknownNameError
from looprop.methods.base import Attribution, Method
from looprop.methods.looprop.budget import FIRST_PASS, share_budget
from looprop.methods.looprop.estimates import (
    FirstEstimate,
    NotCarried,
    Places,
    Scores,
    first_estimate,
    true_values,
    with_rows,
    without_read_out,
)
from looprop.methods.looprop.first_order import Backward, first_order
from looprop.methods.looprop.rows import can_carry
from looprop.models.subject import Subject
from looprop.removal.set_function import SetFunction


class LooProp(Method):
    """The removal effect through a few exact rows and, to first order, through all others.

    rows: how many rows per variant, on average, are carried exactly, the read-out row included; "all" is exact
        leave-one-out.
    refine: how many features get their true leave-one-out value: the read-out token, then the largest first-order
        estimates.
    backward: what carries the first-order part: the ordinary gradient, or the rules of LRP.
    budget: instead of rows and refine: forward passes in all (>= 3), or a share of leave-one-out's cost (below 1).
    """

    name = "looprop"
    title = "looprop"
    summary = "the leave-one-out effect itself, exact in a few rows, first order in the rest"
    cost = "3 + rows * F / T + refine"
    kind = "effect"
    coarse = "looprop[rows=2]"
    order = 20
    inputs = ("text", "image")
    removes_by = "attention-mask"
    limits = """
        *Claims:* an estimate of leave-one-out, exact in a few rows, to first order in the rest.

        Do not trust it

        - beyond leave-one-out itself: all of that section applies;
        - where removal has a large effect through rows that it does not carry: the first-order part is a slope. `rows=`
          and `refine=` buy exactness, `e.details["rows"]` says what it got;
        - outside Transformers: there must be attention whose keys can be barred.
        """

    def __init__(
        self,
        *,
        rows: int | Literal["all"] = 8,
        refine: int = 0,
        backward: Backward = "gradient",
        budget: float | None = None,
    ) -> None:
        if rows != "all" and (not isinstance(rows, int) or isinstance(rows, bool) or rows < 0):
            raise InputError(f"rows must be an integer >= 0 or 'all', got {rows!r}")
        if not isinstance(refine, int) or isinstance(refine, bool) or refine < 0:
            raise InputError(f"refine must be an integer >= 0, got {refine!r}")
        if backward not in get_args(Backward):
            raise UnknownNameError("backward", str(backward), get_args(Backward))
        if budget is not None and not (0 < budget < 1 or budget >= FIRST_PASS):
            raise InputError(
                f"budget must be a share of leave-one-out below 1 or at least {FIRST_PASS:g} passes, got {budget!r}"
            )
        self.rows, self.refine, self.backward, self.budget = rows, refine, backward, budget

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        """One estimate per subject."""
        return [self._attribute(subject) for subject in subjects]

    def _attribute(self, subject: Subject) -> Attribution:
        count, length = len(subject.features), len(subject.encoded) + subject.adapter.leading_positions(subject.encoded)
        value = SetFunction(subject, removal="attention-mask")
        pairs: int | None
        if self.budget is None:
            refine, pairs = self.refine, None if self.rows == "all" else self.rows * count
        else:
            share = share_budget(self.budget, count)
            if share.exact:
                return _exact(value)
            refine, pairs = share.refine, share.rows * length
        first = first_estimate(subject, first_order(subject, self.backward))
        subject.check_route(first.start.output, "under the engine")
        extra = 0 if self.budget is None else share.rows  # what rows would have cost buys true values
        scores, carried, known, said = _estimate(subject, first, pairs, refine, extra)
        details: dict[str, Any] = {"rows": carried / count, "refined": len(known), "own_r": float("nan"), **said}
        if len(known):
            scores[known] = true_values(value, known)
            details["own_r"] = _agreement(first.scores[known], scores[known])
        return Attribution(scores, cost=FIRST_PASS + carried / length + len(known), details=details)


def _estimate(
    subject: Subject, first: FirstEstimate, pairs: int | None, refine: int, extra: int
) -> tuple[Scores, float, Places, dict[str, str]]:
    """Scores, pairs carried, whose true value is to be computed, and what has to be said of it.

    extra: how many more true values there are where no rows can be carried.
    """
    reason = ""
    if pairs != 0 and can_carry(subject, first.start):
        known = first.order()[:refine]
        try:
            return *with_rows(subject, first, pairs, known), known, {}
        except NotCarried as found:
            reason = f": {found}"
            subject.adapter.facts.lost["carried rows"] = str(found)
    if pairs is None:
        raise InputError(
            f"rows of {subject.adapter.name} cannot be carried on their own{reason}: use method='loo', or refine="
        )
    refine += extra
    scores = first.scores.copy() if refine else without_read_out(first)
    return scores, 0.0, first.order()[:refine], {"fell_back": f"rows{reason}"} if reason else {}


def _exact(value: SetFunction) -> Attribution:
    """Leave-one-out itself, where the budget allows it."""
    count = len(value.subject.features)
    scores = true_values(value, np.arange(count))
    return Attribution(scores, cost=float(count), details={"rows": "all", "refined": count, "own_r": 1.0})


def _agreement(estimates: Scores, truth: Scores) -> float:
    """r of estimates with the truth where it is known; NaN for fewer than three."""
    ready = len(truth) >= 3 and np.ptp(estimates) > 0 and np.ptp(truth) > 0
    return float(np.corrcoef(estimates, truth)[0, 1]) if ready else float("nan")

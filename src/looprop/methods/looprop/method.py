"""looprop: propagate the leave-one-out effect itself, the attention block taken as one unit.

LOO_i ~ f(x) - f(x; keys of i barred in the rows S_i) + sum over other rows j of < df/dO_j , dO_j(i) >

From one backward pass (no exact rows) to exact leave-one-out (all rows) in one family. Some features get their true
leave-one-out value instead, the read-out token first: there a linear view fails most.
"""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from looprop.errors import InputError, RuleError
from looprop.methods.base import Attribution, Method
from looprop.methods.looprop.first_order import TWO_STACKS, Backward, FirstOrder, first_order
from looprop.methods.looprop.rows import carried
from looprop.methods.looprop.spending import (
    FIRST_PASS,
    USUAL,
    FirstEstimate,
    Places,
    Scores,
    exact,
    exact_is_as_quick,
    first_estimate,
    passes_of,
    spend,
    true_values,
    with_mean,
    with_rows,
)
from looprop.methods.parts.attention_layers import check_tokens
from looprop.methods.parts.players import whole_number
from looprop.models.subject import Subject
from looprop.naming import one_of
from looprop.removal.trust import check_version
from looprop.removal.value import SetFunction

USUAL_ROWS = 8  # how many rows `refine=` alone goes with


class LooProp(Method):
    """The removal effect through a few exact rows and, to first order, through all others.

    budget: forward passes in all (>= 3), or a share of leave-one-out's cost (below 1); what they buy is decided on the
        input itself (spending.py). None and nothing else given: 11, and exact leave-one-out where that takes no longer.
    rows: instead of a budget, how many rows per variant, on average, are carried exactly; "all" is leave-one-out.
    refine: instead of a budget, how many features get their true value: the read-out, then those felt most.
    backward: what carries the first-order part: the ordinary gradient, or the rules of LRP. None: AttnLRP's where a
        budget is spent on a decoder, else the gradient.
    """

    name = "looprop"
    title = "looprop"
    summary = "the leave-one-out effect itself, exact in a few rows, first order in the rest"
    cost = "at most F"
    kind = "effect"
    coarse = "looprop[rows=2]"
    inputs = ("text", "image")
    removes_by = "attention-mask"

    def __init__(
        self,
        *,
        rows: int | Literal["all"] | None = None,
        refine: int | None = None,
        backward: Backward | None = None,
        budget: float | None = None,
    ) -> None:
        if rows not in ("all", None) and (not isinstance(rows, int) or isinstance(rows, bool) or rows < 0):
            raise InputError(f"rows must be an integer >= 0 or 'all', got {rows!r}")
        if refine is not None:
            whole_number("refine", refine, 0)
        if backward is not None:
            one_of("backward", backward, get_args(Backward))
        if budget is not None and not (0 < budget < 1 or budget >= FIRST_PASS):
            least = f"a share of leave-one-out below 1 or at least {FIRST_PASS:g} passes"
            raise InputError(f"budget must be {least}, got {budget!r}")
        if budget is not None and (rows is not None or refine is not None):
            raise InputError("a budget decides about rows and refine by itself: give it, or these")
        self.rows, self.refine, self.backward, self.budget = rows, refine, backward, budget

    def passes(self, subject: Subject) -> float:
        count, length = len(subject.features), subject.length
        if self.rows is None and self.refine is None:
            return min(count, passes_of(USUAL if self.budget is None else self.budget, count))
        rows = length if self.rows == "all" else USUAL_ROWS if self.rows is None else self.rows
        return FIRST_PASS + rows * count / length + (self.refine or 0)

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        for subject in subjects:
            check_tokens(subject, self.name, TWO_STACKS)
        said = self.rows is not None or self.refine is not None
        return [self._as_told(subject) if said else self._within_budget(subject) for subject in subjects]

    def _within_budget(self, subject: Subject) -> Attribution:
        count = len(subject.features)
        value = SetFunction(subject, removal="attention-mask")
        if self.budget is None and exact_is_as_quick(count, subject.length, causal=subject.adapter.causal):
            return exact(value, "leave-one-out takes no longer on a short input")
        passes = passes_of(USUAL if self.budget is None else self.budget, count)
        if passes >= count:
            return exact(value, "leave-one-out costs no more")
        first = first_estimate(subject, self._first(subject))
        subject.check_route(first.start.output, "under the engine")
        spent = spend(subject, value, first, passes)
        check_version(subject)
        length = first.member.shape[1]
        paid = {"first pass": FIRST_PASS, "true values": spent.values, "rows": spent.carried / length}
        details = {"rows": spent.carried / count, **_known(first, spent.scores, spent.known), "spent": paid}
        details |= {"why": spent.why, **({"fell_back": f"rows: {spent.lost}"} if spent.lost else {})}
        return Attribution(spent.scores, cost=sum(paid.values()), details=details)

    def _first(self, subject: Subject) -> FirstOrder:
        """The first pass. Through the many layers of a decoder the gradient loses its way (docs/looprop-method.md)."""
        if self.backward is None and subject.adapter.causal:
            try:
                return first_order(subject, "attnlrp")
            except RuleError:  # an operation that AttnLRP has no rule for
                pass
        return first_order(subject, self.backward or "gradient")

    def _as_told(self, subject: Subject) -> Attribution:
        count, length = len(subject.features), subject.length + subject.adapter.leading_positions(subject.encoded)
        rows, refine = USUAL_ROWS if self.rows is None else self.rows, self.refine or 0
        value = SetFunction(subject, removal="attention-mask")
        first = first_estimate(subject, first_order(subject, self.backward or "gradient"))
        subject.check_route(first.start.output, "under the engine")
        scores, pairs, known, said = _estimate(subject, first, None if rows == "all" else rows * count, refine)
        if len(known):
            scores[known] = true_values(value, known)
        check_version(subject)
        details: dict[str, Any] = {"rows": pairs / count, **_known(first, scores, known), **said}
        return Attribution(scores, cost=FIRST_PASS + pairs / length + len(known), details=details)


def _estimate(
    subject: Subject, first: FirstEstimate, pairs: int | None, refine: int
) -> tuple[Scores, float, Places, dict[str, str]]:
    """Scores, pairs carried, whose true value is to be computed, and what has to be said of it."""
    known = first.order()[:refine]

    def without(reason: str) -> tuple[Scores, float, Places, dict[str, str]]:
        if pairs is None:
            why = f": {reason}" if reason else ""
            raise InputError(
                f"rows of {subject.adapter.name} cannot be carried on their own{why}: use method='loo', or refine="
            )
        scores = first.scores.copy() if refine else with_mean(first.scores, first.reads)
        return scores, 0.0, known, {"fell_back": f"rows: {reason}"} if reason else {}

    if pairs == 0:
        return without("")
    return carried(subject, first.start, lambda: (*with_rows(subject, first, pairs, known), known, {}), without)


def _known(first: FirstEstimate, scores: Scores, known: Places) -> dict[str, Any]:
    """List the features with true values, their first estimates, and r between the two (NaN below three)."""
    estimates, truth = first.scores[known], scores[known]
    ready = len(truth) >= 3 and np.ptp(estimates) > 0 and np.ptp(truth) > 0
    r = float(np.corrcoef(estimates, truth)[0, 1]) if ready else float("nan")
    return {"refined": len(known), "known": known.tolist(), "estimated": estimates.tolist(), "own_r": r}

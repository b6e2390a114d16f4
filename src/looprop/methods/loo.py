"""Leave-one-out: the drop of the target when one feature is removed.  LOO_i = f(x) - f(x without i)"""

from collections.abc import Sequence
from typing import get_args

import numpy as np

from looprop.errors import UnknownNameError
from looprop.methods.base import Attribution, Method
from looprop.models.adapter import Removal
from looprop.models.subject import Subject
from looprop.removal.many_texts import compute_together
from looprop.removal.value import Precision, SetFunction


class LeaveOneOut(Method):
    """Exact leave-one-out. Cost: one forward pass per feature, less those known already."""

    name = "loo"
    title = "Leave-one-out"
    short = "LOO"
    summary = "exact leave-one-out: the drop of the target when a feature is removed"
    cost = "F"
    shares_removals = True
    kind = "effect"

    def __init__(self, *, removal: Removal | None = None, precision: Precision = "float32") -> None:
        if removal is not None and removal not in get_args(Removal):
            raise UnknownNameError("removal", str(removal), get_args(Removal))
        if precision not in get_args(Precision):
            raise UnknownNameError("precision", str(precision), get_args(Precision))
        self.removal, self.precision = removal, precision

    def passes(self, subject: Subject) -> float:
        return float(len(subject.features))

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        asked = []
        for subject in subjects:
            value = SetFunction(subject, removal=self.removal, precision=self.precision)
            asked.append((value, ~np.eye(len(subject.features), dtype=bool)))  # row i leaves feature i out
        # Targets of one text share its variants: they are computed once, and charged to the first.
        first = {id(value.count): (value, keep) for value, keep in reversed(asked)}
        paid = {name: value.count.computed for name, (value, _) in first.items()}
        if len(first) > 1:
            compute_together(list(first.values())[::-1])
        found = []
        for value, keep in asked:
            scores = value(np.ones_like(keep[:1])) - value(keep)
            cost = float(value.count.computed - paid[id(value.count)])
            paid[id(value.count)] = value.count.computed
            found.append(Attribution(scores, cost=cost, details={"removal": value.report()}))
        return found

"""Leave-one-out: the drop of the target when one feature is removed.  LOO_i = f(x) - f(x without i)"""

from collections.abc import Sequence
from typing import get_args

import numpy as np

from looprop.errors import UnknownNameError
from looprop.methods.base import Attribution, Method
from looprop.models.adapter import Removal
from looprop.models.subject import Subject
from looprop.removal.set_function import Precision, SetFunction


class LeaveOneOut(Method):
    """Exact leave-one-out. Cost: one forward pass per feature, less those known already."""

    name = "loo"
    title = "Leave-one-out"
    short = "LOO"
    summary = "exact leave-one-out: the drop of the target when a feature is removed"
    cost = "F"
    shares_removals = True
    kind = "effect"
    order = 10
    limits = """
        *Claims:* how the target changes when this one feature is gone.

        Do not trust it

        - where features are redundant: of two words that say the same, each can go without effect, and both get scores
          near zero;
        - where they only work together: in "not bad" both get the whole effect, so the scores add up to more than there
          is;
        - as a statement about natural inputs: a masked token, a grey patch or a zero pixel is an input that the model
          may never have seen. Compare two removals (`loo[removal=mask-token]`);
        - for the read-out token: removing the key of [CLS] changes the sentence's own summary, an effect of the
          architecture as much as of the text.
        """

    def __init__(self, *, removal: Removal | None = None, precision: Precision = "float32") -> None:
        if removal is not None and removal not in get_args(Removal):
            raise UnknownNameError("removal", str(removal), get_args(Removal))
        if precision not in get_args(Precision):
            raise UnknownNameError("precision", str(precision), get_args(Precision))
        self.removal, self.precision = removal, precision

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        """f(x) - f(x without i) for every feature i."""
        return [self._attribute(subject) for subject in subjects]

    def _attribute(self, subject: Subject) -> Attribution:
        value = SetFunction(subject, removal=self.removal, precision=self.precision)
        before = value.count.computed
        n = len(subject.features)
        keep = ~np.eye(n, dtype=bool)  # row i leaves feature i out
        scores = value(np.ones((1, n), dtype=bool)) - value(keep)
        return Attribution(scores, cost=float(value.count.computed - before), details={"removal": value.report()})

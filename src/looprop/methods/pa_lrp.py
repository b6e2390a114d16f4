"""AttnLRP whose positions keep nothing for themselves (after PA-LRP, Bakish et al. 2025).

A token's score is the relevance of its word embedding, of the position that is added to it, and of the rotations that
turn its queries and keys in every layer: at each of these products half of the relevance goes to the position.
"""

from collections.abc import Sequence

from looprop.methods.base import Attribution, Method
from looprop.methods.parts.propagating import check_one_text, propagate
from looprop.models.subject import Subject
from looprop.propagation.plan import Plan


class PositionAwareLRP(Method):
    """AttnLRP with what positions take given to their tokens. Cost 3."""

    name = "pa-lrp"
    title = "PA-LRP"
    summary = "AttnLRP, with the relevance of learned and rotary positions given to their tokens"
    cost = "3"
    kind = "share"
    inputs = ("text",)

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        check_one_text(subjects[0], self.name)
        return propagate(subjects, Plan(rotary="halves"), readout="positions", complete=True)

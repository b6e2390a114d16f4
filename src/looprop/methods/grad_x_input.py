"""Gradient times input: R_i = x_i df/dx_i, the first-order effect of the embedding itself."""

from collections.abc import Sequence
from typing import Literal

from looprop.methods.base import Attribution, Method
from looprop.methods.parts.propagating import propagate
from looprop.models.adapter import Adapter
from looprop.models.encoded import Encoded
from looprop.models.subject import Subject
from looprop.propagation.plan import GRADIENT, Plan


class GradientTimesInput(Method):
    """The ordinary gradient times the embedding. Cost 3."""

    name = "grad-x-input"
    title = "Gradient times input"
    short = "gradient x input"
    summary = "ordinary gradient times the word embedding"
    cost = "3"
    kind = "effect"

    def __init__(self, *, readout: Literal["word", "sum"] = "word") -> None:
        self.readout = readout

    def plan_for(self, adapter: Adapter, encoded: Encoded) -> Plan | None:
        return GRADIENT if self.readout == "word" else None

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        return propagate(subjects, GRADIENT, readout=self.readout)

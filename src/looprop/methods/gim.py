"""Gradient interaction modifications (GIM, Edin et al. 2025, arXiv 2505.17630): R = (x - x') g.

g is the gradient with norms held constant, softmax differentiated at a temperature, and its paths through queries and
keys taken 1/4 times, through values 1/2 times. In this engine: AttnLRP's attention at that temperature, the ordinary
gradient of activations and gates.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from looprop.methods.base import Attribution, Method
from looprop.methods.parts.propagating import propagate
from looprop.models.adapter import Adapter
from looprop.models.encoded import Encoded
from looprop.models.subject import Subject
from looprop.naming import one_of
from looprop.propagation.plan import Plan

Baseline = Literal["zero", "space", "pad", "mask"]


class GIM(Method):
    """The gradient with norms held and attention's interactions shared out. Cost 3.

    temperature: of the gradient of softmax. baseline: x', zero embeddings or those of a token; the authors' package
        takes a space, or padding where that is no token.
    """

    name = "gim"
    title = "GIM"
    summary = "gradient with norms held, softmax at temperature 2, attention's products shared out, times input"
    cost = "3"
    kind = "effect"

    def __init__(self, *, temperature: float = 2.0, baseline: Baseline = "zero") -> None:
        self.plan(temperature)
        self.temperature, self.baseline = temperature, one_of("baseline", baseline, get_args(Baseline))

    @staticmethod
    def plan(temperature: float) -> Plan:
        """The rules: at temperature 1 they are those of `lrp` with the gradient at activations and products."""
        return Plan(temperature=temperature, activation="gradient", product="gradient")

    def plan_for(self, adapter: Adapter, encoded: Encoded) -> Plan | None:
        return self.plan(self.temperature) if self.baseline == "zero" else None

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        def times_difference(x: Tensor, gradient: Tensor) -> Tensor:
            return (x - subjects[0].adapter.baseline(x, self.baseline)) * gradient

        combine = torch.mul if self.baseline == "zero" else times_difference
        return propagate(subjects, self.plan(self.temperature), combine=combine)

"""Libra FullGrad (after LibraGrad, Mehri et al. 2025, and FullGrad, Srinivas & Fleuret 2019).

LibraGrad prunes the paths of the gradient that break completeness: softmax, standard deviations, the curvature of
activations; gates get halves. On these operations that is CP-LRP's backward pass. FullGrad then adds to a position what
every bias that is added there contributes:  R_t = x_t g_t + sum over biases b of b g_b,t
"""

from collections.abc import Sequence

from looprop.methods.base import Attribution, Method
from looprop.methods.parts.propagating import check_one_text, propagate
from looprop.models.subject import Subject
from looprop.propagation.plan import Plan


class LibraFullGrad(Method):
    """CP-LRP's backward pass, with biases read where they are added. Cost 3."""

    name = "libragrad"
    title = "LibraGrad"
    summary = "pruned gradient (that of CP-LRP) times input, plus what biases add at each position"
    cost = "3"
    kind = "share"
    inputs = ("text",)

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        check_one_text(subjects[0], self.name)
        plan = Plan(attention="cp", bias="placed")
        # One by one: the biases of padding would be counted for somebody.
        return [a for subject in subjects for a in propagate([subject], plan, readout="positions", complete=True)]

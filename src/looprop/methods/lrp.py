"""Layer-wise relevance propagation: every hybrid of AttnLRP and CP-LRP.

AttnLRP (Achtibat et al. 2024) splits relevance at O = A V and Z = Q K^T in halves and passes softmax by its Taylor
rule; CP-LRP (Ali et al. 2022) holds A constant and sends all relevance of O to V.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from looprop.errors import InputError
from looprop.methods.base import Attribution, Method
from looprop.methods.parts.propagating import propagate
from looprop.models.adapter import Adapter
from looprop.models.encoded import Encoded
from looprop.models.subject import Subject
from looprop.propagation.plan import BilinearForm, LinearRule, Plan, parse_layers
from looprop.propagation.plan_file import read_plan

TokenBias = Literal["keep", "printed", "shared"]
"""What becomes of a bias: what is left of `BiasShare` where nothing is given to positions."""


class LRP(Method):
    """Relevance propagation under a plan. One forward and one backward pass: cost 3.

    cp: layers that take CP-LRP, as in `lrp[cp=4-6]`. readout: at the word embedding, or at its sum with positions. The
        other options are those of `Plan`, where they are explained: epsilon, bias, bilinear, linear, gamma, conv_gamma,
        alpha. plan: a whole plan in their place, or the file of one (docs/rules.md, "A plan in a file").
    """

    name = "lrp"
    title = "Hybrids, `lrp[cp=4-6]`"
    short = "lrp"
    summary = "relevance propagation with CP-LRP in chosen layers, AttnLRP in the others: lrp[cp=4-6]"
    cost = "3"
    kind = "share"
    example = "lrp[cp=2:]"
    text_options = frozenset({"cp", "plan"})
    layers: ClassVar[str | None] = None
    """The layers that take CP-LRP where none are given."""

    def __init__(
        self,
        *,
        cp: str | int | None = None,
        epsilon: float = 0.0,
        bias: TokenBias = "keep",
        bilinear: BilinearForm = "pairs",
        readout: Literal["word", "sum"] = "word",
        linear: LinearRule = "epsilon",
        gamma: float = 0.25,
        conv_gamma: float = 0.25,
        alpha: float = 2.0,
        plan: Plan | str | Path | None = None,
    ) -> None:
        if self.fixed and not (cp is None and plan is None):
            raise InputError(f"{self.name} has its layers and its plan: use lrp to choose them")
        self.cp = self.layers if cp is None else str(cp)
        if isinstance(plan, (str, Path)):
            found = read_plan(plan)
            if readout != "word" and readout != found.readout:
                raise InputError(f"the plan {plan} is read at {found.readout!r}, got readout={readout!r}")
            plan, readout = found
        if plan is None:
            attention: Any = "attnlrp"
            if self.cp == "all":
                attention = "cp"
            elif self.cp is not None and not self._open:
                attention = {layer: "cp" for layer in parse_layers(self.cp)}
            gammas: dict[str, Any] = {"gamma": gamma, "conv_gamma": conv_gamma, "alpha": alpha}
            plan = Plan(attention=attention, epsilon=epsilon, bias=bias, bilinear=bilinear, linear=linear, **gammas)
        elif cp is not None or epsilon or bias != "keep" or bilinear != "pairs" or linear != "epsilon":
            raise InputError(
                "a plan holds its own layers, epsilon, bias share, linear rule and form of products: give either a "
                "plan or cp, epsilon, bias, bilinear, linear"
            )
        if plan.bias == "placed" or plan.rotary == "halves":
            raise InputError(
                "what a plan gives to positions (bias='placed', rotary='halves') is read by 'libragrad' and 'pa-lrp'"
            )
        self.readout, self.plan = readout, plan
        self._options = {"cp": self.cp, "readout": readout, "plan": plan.to_dict()}

    @property
    def _open(self) -> bool:
        """Whether the layers end at the model's last, as in `4:`."""
        return self.cp is not None and any(part.strip().endswith(":") for part in self.cp.split(","))

    @property
    def options(self) -> dict[str, Any]:
        return dict(self._options)

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        return propagate(
            subjects, self._plan(subjects[0].adapter, subjects[0].encoded), readout=self.readout, complete=True
        )

    def plan_for(self, adapter: Adapter, encoded: Encoded) -> Plan | None:
        return self._plan(adapter, encoded) if self.readout == "word" else None

    def _plan(self, adapter: Adapter, encoded: Encoded) -> Plan:
        """An open range of layers, `4:`, ends at the model's last layer."""
        if not self._open:
            return self.plan
        layers = parse_layers(self.cp or "", adapter.attention_layers(encoded))
        return replace(self.plan, attention={layer: "cp" for layer in layers})

"""Layer-wise relevance propagation: AttnLRP, CP-LRP, and every hybrid of the two.

AttnLRP (Achtibat et al. 2024) splits relevance at O = A V and Z = Q K^T in halves and passes softmax by its Taylor
rule; CP-LRP (Ali et al. 2022) holds A constant and sends all relevance of O to V.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from looprop.errors import InputError
from looprop.methods.base import Attribution, Method
from looprop.methods.propagating import propagate
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
    order = 32
    text_options = frozenset({"cp", "plan"})
    limits = """
        *Claims:* CP-LRP in some layers, AttnLRP in the others.

        Which layers help depends on model and data: measure on yours (`looprop evaluate`), and do not choose layers on
        the texts that you report.
        """

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
        self.cp = None if cp is None else str(cp)
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
            plan = Plan(
                attention=attention,
                epsilon=epsilon,
                bias=bias,
                bilinear=bilinear,
                linear=linear,
                gamma=gamma,
                conv_gamma=conv_gamma,
                alpha=alpha,
            )
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

    @property
    def _open(self) -> bool:
        """Whether the layers end at the model's last, as in `4:`."""
        return self.cp is not None and any(part.strip().endswith(":") for part in self.cp.split(","))

    @property
    def options(self) -> dict[str, Any]:
        """The plan and the read-out."""
        return {"cp": self.cp, "readout": self.readout, "plan": self.plan.to_dict()}

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        """Relevance at the embeddings, summed to features."""
        return propagate(subjects, self._plan(subjects[0]), readout=self.readout, complete=True)

    def plan_for(self, subject: Subject) -> Plan | None:
        """The plan, with its layers counted."""
        return self._plan(subject) if self.readout == "word" else None

    def _plan(self, subject: Subject) -> Plan:
        """An open range of layers, `4:`, ends at the model's last layer."""
        if not self._open:
            return self.plan
        layers = parse_layers(self.cp or "", subject.adapter.attention_layers(subject.encoded))
        chosen: Mapping[int, Literal["attnlrp", "cp", "gradient"]] = dict.fromkeys(layers, "cp")
        return replace(self.plan, attention=chosen)


class AttnLRP(LRP):
    """AttnLRP in every layer."""

    name = "attnlrp"
    title = "AttnLRP"
    summary = "relevance through values and attention weights, softmax by its Taylor rule"
    cost = "3"
    kind = "share"
    order = 31
    limits = """
        *Claims:* how the logit is handed back through values and attention weights.

        Do not trust it

        - where attention is nearly uniform or its scores are large: the softmax rule loses or makes relevance there,
          and does not conserve in general;
        - to be the same for the same function: two networks that compute the same, written differently, get different
          maps where products stand one upon the other, because each is split in halves, and wherever something is split
          at a positive epsilon. [The audit](how-to/audit.md) shows it for your model; `attnlrp[bilinear=canonical]`
          does away with the first;
        - in sum: its relevances do not add up to the logit (`e.residual` says by how much).
        """

    def __init__(
        self,
        *,
        epsilon: float = 0.0,
        bias: TokenBias = "keep",
        bilinear: BilinearForm = "pairs",
        readout: Literal["word", "sum"] = "word",
        linear: LinearRule = "epsilon",
        gamma: float = 0.25,
        conv_gamma: float = 0.25,
        alpha: float = 2.0,
    ) -> None:
        chosen: dict[str, Any] = {"linear": linear, "gamma": gamma, "conv_gamma": conv_gamma, "alpha": alpha}
        super().__init__(epsilon=epsilon, bias=bias, bilinear=bilinear, readout=readout, **chosen)


class CPLRP(LRP):
    """CP-LRP in every layer."""

    name = "cp-lrp"
    title = "CP-LRP"
    summary = "relevance through values only, attention weights held constant"
    cost = "3"
    kind = "share"
    order = 30
    limits = """
        *Claims:* how the logit is handed back through values, with attention as it was.

        Do not trust it

        - about *why* something was attended to: queries and keys get nothing;
        - for models in which attention patterns carry the decision (copying, induction, matching of two texts): there
          the part it leaves out is the part that matters;
        - for exact sums in models with biases: the biases keep their share.
        """

    def __init__(
        self,
        *,
        epsilon: float = 0.0,
        bias: TokenBias = "keep",
        bilinear: BilinearForm = "pairs",
        readout: Literal["word", "sum"] = "word",
        linear: LinearRule = "epsilon",
        gamma: float = 0.25,
        conv_gamma: float = 0.25,
        alpha: float = 2.0,
    ) -> None:
        chosen: dict[str, Any] = {"linear": linear, "gamma": gamma, "conv_gamma": conv_gamma, "alpha": alpha}
        super().__init__(cp="all", epsilon=epsilon, bias=bias, bilinear=bilinear, readout=readout, **chosen)

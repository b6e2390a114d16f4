"""lxt, explicit form: rules attached to modules and, through a trace of the model, to functions. For BERT."""

import operator
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.exchange import Case
from benchmarks.sides import Job
from benchmarks.sides.plain import batches, embedded, model_of, target_logits
from benchmarks.sides.torchvision_operators import declare

declare()

import lxt.explicit.functional as functional  # noqa: E402
import lxt.explicit.modules as modules  # noqa: E402
from lxt.explicit import rules  # noqa: E402
from lxt.explicit.core import Composite  # noqa: E402


@torch.fx.wrap
def add(left: Any, right: Any) -> Any:
    """The rule for sums of tensors; sizes are added as they are."""
    return functional.add2(left, right) if isinstance(left, Tensor) and isinstance(right, Tensor) else left + right


@torch.fx.wrap
def divide(left: Any, right: Any) -> Any:
    """By a constant: all relevance to the other, which a plain division would scale."""
    return functional.mul2(left, 1 / right) if isinstance(left, Tensor) and left.requires_grad else left / right


@torch.fx.wrap
def softmax(scores: Tensor, dim: int, **_: Any) -> Any:
    """The rule, without the arguments that only torch's own function takes."""
    return functional.softmax(scores, dim)


# A module that is wrapped in IdentityRule loses the rule when the model is traced, so activations get it as functions.
@torch.fx.wrap
def gelu(x: Tensor, **_: Any) -> Any:
    """The identity rule."""
    return rules.identity(nn.functional.gelu, x)


@torch.fx.wrap
def tanh(x: Tensor) -> Any:
    """The identity rule."""
    return rules.identity(torch.tanh, x)


class Tanh(nn.Module):
    """A tanh that a trace sees as a function."""

    def forward(self, x: Tensor) -> Tensor:
        """tanh(x)"""
        return torch.tanh(x)


ATTNLRP = {
    nn.Linear: modules.LinearEpsilon,
    nn.LayerNorm: modules.LayerNormEpsilon,
    nn.functional.gelu: gelu,
    torch.tanh: tanh,
    operator.add: add,
    operator.truediv: divide,
    torch.matmul: functional.matmul,
    nn.functional.softmax: softmax,
}


def _no_epsilon(value: Tensor, epsilon: float = 0.0, inplace: bool = False) -> Tensor:
    """The limit of its stabiliser: only a zero is kept from dividing."""
    return torch.where(value == 0, torch.full_like(value, 1e-30), value)


STABILISE = functional._stabilize


def attnlrp(case: Case, *, epsilon: bool = True) -> Job:
    """Relevance of the word embeddings: the backward pass carries relevance, not a gradient. epsilon=False takes its
    epsilon out.
    """
    model = model_of(case, "eager")
    model.bert.pooler.activation = Tanh()
    inputs = {
        "inputs_embeds": torch.randn(1, len(case.ids[0]), model.config.hidden_size),
        "attention_mask": torch.ones(1, len(case.ids[0])),
    }
    traced = Composite(ATTNLRP).register(model, dummy_inputs=inputs)

    def relevance(ids: Tensor, targets: list[int]) -> list[Any]:
        leaf = embedded(model, ids)
        values = target_logits(
            model, traced(inputs_embeds=leaf, attention_mask=torch.ones_like(ids))["logits"], targets
        )
        (found,) = torch.autograd.grad(values, leaf, values.detach())
        return [row.double().numpy() for row in found.sum(-1)]

    def run() -> list[Any]:
        functional._stabilize = STABILISE if epsilon else _no_epsilon
        return [scores for ids, targets in batches(case) for scores in relevance(ids, targets)]

    return Job(run, len(case.ids))


JOBS = {"attnlrp": attnlrp}

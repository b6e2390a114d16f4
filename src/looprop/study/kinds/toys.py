"""Section 3.2: one attention row over scalar tokens, where every method's answer can be worked out by hand.

f(x) = sum_i A_i v_i,    A = softmax(key * x),    v_i = value_i x_i + bias
"""

import math
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from looprop.errors import DataError
from looprop.evaluation.example import Task
from looprop.methods.registry import make_method
from looprop.metrics import pearson
from looprop.models.subject import bind
from looprop.models.tensor_module import TensorModule
from looprop.propagation import reference
from looprop.running.missing import Work
from looprop.running.parts import Row
from looprop.study.job import Job, Options
from looprop.study.spec import Spec, Toy

REFERENCES = ("loo[removal=attention-mask]", "loo[removal=zero]")


class AttentionRow(nn.Module):
    """The toy as a module that the engine understands like any other attention: a constant query, keys x."""

    query: Tensor
    value: Tensor
    weight: Tensor
    bias: Tensor

    def __init__(self, toy: Toy) -> None:
        super().__init__()
        self.register_buffer("query", torch.full((1, 1, 1, 1), toy.key, dtype=torch.float64))  # (B, H, rows, width)
        self.register_buffer("value", torch.tensor(toy.value, dtype=torch.float64))  # (T,)
        self.register_buffer("weight", torch.ones(1, 1, dtype=torch.float64))
        self.register_buffer("bias", torch.full((1,), toy.bias, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (B, T) -> (B,)."""
        keys = x[:, None, :, None]  # (B, 1, T, 1)
        # A linear layer of width one, so that the rule for its bias is the one under test.
        values = nn.functional.linear((x * self.value)[:, None, :, None], self.weight, self.bias)
        query = self.query.expand(len(x), 1, 1, 1)
        return nn.functional.scaled_dot_product_attention(query, keys, values, scale=1.0).flatten()


def prepare_toys(spec: Spec, options: Options) -> Job:
    """One task per case."""
    for name in ("model", "data", "limit", "loo_from"):
        if getattr(options, name) is not None:
            raise DataError(f"{spec.name} has its own cases and takes no {name}, got {getattr(options, name)!r}")
    for name, toy in spec.cases.items():
        if len(toy.inputs) != len(toy.value) or len(toy.inputs) < 2:
            lengths = f"{len(toy.inputs)} and {len(toy.value)}"
            raise DataError(f"case {name!r}: inputs and value must have the same length, at least 2, got {lengths}")

    def prepare(folder: Path, *, progress: bool) -> Work:
        return partial(measure_toy, spec)

    tasks = [Task(name, toy) for name, toy in spec.cases.items()]
    about = {
        "model": "attention row",
        "data": "toys",
        "data_title": f"{len(tasks)} cases",
        "subset": False,
        "examples": len(tasks),
    }
    return Job(f"{spec.name}: {len(tasks)} cases", tasks, prepare, {"spec": spec.to_dict()}, about)


def measure_toy(spec: Spec, task: Task) -> list[Row]:
    """What each method says of a case: scores, their sum, and how far they are from leave-one-out under two kinds of
    removal.
    """
    toy: Toy = task.item
    x = torch.tensor(toy.inputs, dtype=torch.float64)
    adapter = TensorModule(AttentionRow(toy), name="attention row")
    scores, output = {}, math.nan
    for method in dict.fromkeys((*REFERENCES, *spec.methods)):
        subject = bind(adapter, x)
        output = subject.output
        scores[method] = make_method(method).attribute([subject])[0].scores
    kept = conserved(toy)
    return [
        {
            "example": task.id,
            "method": method,
            "output": output,
            "sum": float(scores[method].sum()),
            **{f"r to {name}": pearson(scores[method], scores[name]) for name in REFERENCES},
            **{f"error to {name}": float(abs(scores[method] - scores[name]).max()) for name in REFERENCES},
            "softmax relevance in": kept[0],
            "softmax relevance out": kept[1],
            "scores": scores[method].tolist(),
            "error": "",
        }
        for method in spec.methods
    ]


def conserved(toy: Toy) -> tuple[float, float]:
    """The relevance that enters the softmax rule at A and the relevance that leaves it at Z,
    by the paper's equations.
    """
    x, value = torch.tensor(toy.inputs, dtype=torch.float64), torch.tensor(toy.value, dtype=torch.float64)
    logits = (toy.key * x)[None]  # (1, T)
    weights, values = torch.softmax(logits, -1), (value * x + toy.bias)[:, None]
    of_weights, _ = reference.attention_values(weights, values, weights @ values)
    return float(of_weights.sum()), float(reference.softmax(logits, of_weights).sum())

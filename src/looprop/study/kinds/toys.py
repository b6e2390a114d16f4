"""Toys (section 3.2): one attention row over scalar tokens, where every method's answer can be worked out by hand.

f(x) = sum_i A_i v_i,    A = softmax(key * x),    v_i = value_i x_i + bias
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from looprop.errors import DataError
from looprop.evaluation.example import Task
from looprop.methods.registry import make_method
from looprop.metrics import pearson
from looprop.models.loading import adapt_module
from looprop.models.subject import bind
from looprop.propagation import reference
from looprop.running.missing import Work
from looprop.running.parts import Row
from looprop.study.claims import JudgedClaim
from looprop.study.kind import About, Job, Kind, Options
from looprop.study.report.grids import Cells, Grid, Measured
from looprop.study.run import Run
from looprop.study.spec import Spec

REFERENCES = ("loo[removal=attention-mask]", "loo[removal=zero]")
SAME = 1e-9
"""Sums that differ by less are the same but for rounding."""


@dataclass(frozen=True)
class Toy:
    """One case: weights softmax(key * inputs), values value_i * inputs_i + bias."""

    inputs: tuple[float, ...]
    value: tuple[float, ...]
    key: float = 1.0
    bias: float = 0.0


class Toys(Kind):
    """One task per case."""

    case = Toy

    def check(self, spec: Spec) -> None:
        for name, toy in spec.cases.items():
            if len(toy.inputs) != len(toy.value) or len(toy.inputs) < 2:
                lengths = f"{len(toy.inputs)} and {len(toy.value)}"
                raise DataError(f"case {name!r}: inputs and value must have the same length, at least 2, got {lengths}")

    def job(self, spec: Spec, options: Options) -> Job:
        unused = ("model", "data", "limit", "loo_from", "references")
        options.check_unused(*unused, because=f"{spec.name} has its own cases")

        def prepare(folder: Path, *, progress: bool) -> Work:
            return partial(measure_toy, spec)

        tasks = [Task(name, toy) for name, toy in spec.cases.items()]
        cases = f"{len(tasks)} cases"
        about = About("attention row", "toys", cases, subset=False, examples=len(tasks))
        return Job(f"{spec.name}: {cases}", tasks, prepare, {"spec": spec.to_dict()}, about)

    def tables(self, run: Run) -> list[Grid]:
        return [
            _case_table(case, [row for row in run.rows if row["example"] == case])
            for case in dict.fromkeys(row["example"] for row in run.rows)
        ]

    def claims(self, run: Run) -> list[JudgedClaim]:
        cases = {row["example"]: (row["softmax relevance in"], row["softmax relevance out"]) for row in run.rows}
        ours = "; ".join(f"{name}: {into:.3f} in, {out:.3f} out" for name, (into, out) in cases.items())
        kept = all(abs(into - out) < SAME for into, out in cases.values())
        claim = "the softmax rule conserves relevance locally"
        return [JudgedClaim(claim, '"these rules conserve relevance locally"', ours, kept)]


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


def measure_toy(spec: Spec, task: Task) -> list[Row]:
    """The scores of each method, their sum, and how far they are from leave-one-out under two kinds of removal."""
    toy: Toy = task.item
    x = torch.tensor(toy.inputs, dtype=torch.float64)
    adapter = adapt_module(AttentionRow(toy), name="attention row")
    scores, output = {}, math.nan
    for method in dict.fromkeys((*REFERENCES, *spec.methods)):
        subject = bind(adapter, x)
        output = subject.output
        scores[method] = make_method(method).attribute([subject])[0].scores
    # The relevance that enters the softmax rule at A and that which leaves it at Z, by the paper's equations.
    value, logits = torch.tensor(toy.value, dtype=torch.float64), (toy.key * x)[None]  # (1, T)
    weights, values = torch.softmax(logits, -1), (value * x + toy.bias)[:, None]
    of_weights, _ = reference.attention_values(weights, values, weights @ values)
    return [
        {
            "example": task.id,
            "method": method,
            "output": output,
            "sum": float(scores[method].sum()),
            **{f"r to {name}": pearson(scores[method], scores[name]) for name in REFERENCES},
            **{f"error to {name}": float(abs(scores[method] - scores[name]).max()) for name in REFERENCES},
            "softmax relevance in": float(of_weights.sum()),
            "softmax relevance out": float(reference.softmax(logits, of_weights).sum()),
            "scores": scores[method].tolist(),
            "error": "",
        }
        for method in spec.methods
    ]


def _case_table(case: str, rows: Sequence[Row]) -> Grid:
    first = rows[0]
    inputs = [f"x{i + 1}" for i in range(len(first["scores"]))]
    header = ["method", *inputs, "sum", "r to LOO (mask)", "r to LOO (zero)", "error to LOO (mask)"]
    table: list[Cells] = [
        [
            row["method"],
            *(Measured(score, digits=4) for score in row["scores"]),
            Measured(row["sum"], digits=4),
            *(Measured(row[f"r to {name}"], digits=3) for name in REFERENCES),
            Measured(row[f"error to {REFERENCES[0]}"], digits=4),
        ]
        for row in rows
    ]
    note = (
        f"f = {first['output']:.4f}; the softmax rule receives {first['softmax relevance in']:.4f} and passes on "
        f"{first['softmax relevance out']:.4f}. An r of constant scores is undefined."
    )
    return Grid(case, header, table, note)


KIND = Toys()

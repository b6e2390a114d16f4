"""One function in two implementations: what each method says of an input in both, and how far that agrees.

Rows carry `network`, the implementation, and `seed`, which network it is. Rows of the scalar product, which is not
trained, have no seed. The same two functions are the paper's cases of the audit.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from looprop.errors import UnknownNameError
from looprop.evaluation.example import Task, evaluate_example
from looprop.evaluation.setup import Setup
from looprop.inputs.mnist import load_mnist
from looprop.metrics import correlate
from looprop.models.loading import adapt_module
from looprop.running.parts import Row
from looprop.study.kinds import AUDIT_CASES
from looprop.study.kinds.networks.training import LinearAttention, draw_digits, reordered, train

Implementation = nn.Module | Callable[[Tensor], Tensor]

POINT = (2.0, 3.0, 4.0)
"""Where figure 1 explains the scalar product x1 x2 x3, which has two groupings."""

LEFT, RIGHT = "L", "R"
"""As in table 1: L is Q (K^T V), kv_first; R is (Q K^T) V, qk_first. Of the scalar product, L is (x1 x2) x3."""


def left_product(x: Tensor) -> Tensor:
    """(x1 x2) x3"""
    return (x[:, 0] * x[:, 1]) * x[:, 2]


def right_product(x: Tensor) -> Tensor:
    """x1 (x2 x3)"""
    return x[:, 0] * (x[:, 1] * x[:, 2])


@dataclass(frozen=True, eq=False)
class PairTask(Task):
    """One input of both implementations. seed: of the network that it goes through; None for the scalar product."""

    seed: int | None = None


def measure_pair(networks: Mapping[int, LinearAttention], task: PairTask, setup: Setup) -> list[Row]:
    """One input through both implementations of one function: rows of both, with the agreement of their scores."""
    if task.seed is None:
        return compare_pair(left_product, right_product, task, setup)
    network = networks[task.seed]
    rows = compare_pair(network, reordered(network, "qk_first"), task, setup)
    # The maps of all images would be many times the size of their numbers.
    return [{**row, "scores": [], "loo": []} for row in rows]


def compare_pair(left: Implementation, right: Implementation, task: PairTask, setup: Setup) -> list[Row]:
    """Rows of both implementations; `l-r` and `l-r-paper` correlate a method's two score maps, raw and normalised to
    sum to one.

    Scores come from each implementation itself. What happens when features are removed is a matter of the one function
    that both compute, so the metrics of both are taken from the left one, which is cheaper.
    """
    of_right = evaluate_example(adapt_module(right), task, replace(setup, metrics=()))
    given = {f"{RIGHT}:{row['method']}": row["scores"] for row in of_right}
    measured = evaluate_example(adapt_module(left), replace(task, scores=given), replace(setup, given=tuple(given)))
    of_left, of_given = measured[: len(of_right)], measured[len(of_right) :]
    # A part of the run that held no seed but None would give the column another type.
    seed = {} if task.seed is None else {"seed": task.seed}
    rows: list[Row] = []
    for own, twin, metrics in zip(of_left, of_right, of_given, strict=True):
        agreement = _agreement(own["scores"], twin["scores"])
        spent = {name: twin[name] for name in ("method", "output", "residual", "cost", "seconds", "note")}
        error = twin["error"] or metrics["error"]
        rows.append({**own, "network": LEFT, **seed, **agreement})
        rows.append({**metrics, **spent, "error": error, "network": RIGHT, **seed, **agreement})
    return rows


def _agreement(left: Sequence[float], right: Sequence[float]) -> Row:
    if not left or not right:
        return {"l-r": math.nan, "l-r-paper": math.nan, "l-r-flipped": None}
    raw, normalised = correlate(left, right), correlate(left, right, protocol="paper")
    return {"l-r": raw.value, "l-r-paper": normalised.value, "l-r-flipped": normalised.flipped}


def seed_of(row: Row) -> int | None:
    """The seed of the network that a row is about; None for the scalar product, where runs of looprop 0.1 wrote -1.

    >>> seed_of({"seed": 3}), seed_of({"seed": -1}), seed_of({"seed": None}), seed_of({})
    (3, None, None, None)
    """
    seed: int | None = row.get("seed")
    return None if seed is None or seed < 0 else seed


def of_product(rows: Sequence[Row]) -> list[Row]:
    """The rows of the scalar product."""
    return [row for row in rows if seed_of(row) is None]


def by_seed(rows: Sequence[Row]) -> dict[int, list[Row]]:
    """The rows of each trained network."""
    groups: dict[int, list[Row]] = {}
    for row in rows:
        if (seed := seed_of(row)) is not None:
            groups.setdefault(seed, []).append(row)
    return groups


def seed_means(rows: Sequence[Row], side: str, column: str) -> list[float]:
    """The mean of a column for each network, in one implementation; undefined values are left out."""
    means = []
    for own in by_seed(rows).values():
        values = np.array([row[column] for row in own if row["network"] == side], dtype=np.float64)  # None: NaN
        defined = values[~np.isnan(values)]
        means.append(float(defined.mean()) if len(defined) else math.nan)
    return means


USUAL_LIMIT = 100
"""So many test digits unless told."""


@dataclass(frozen=True, eq=False)
class AuditCase:
    """A model that is audited on inputs of its own."""

    model: Implementation
    inputs: list[Tensor]
    title: str


def audit_case(name: str, *, limit: int | None = None, seed: int = 0) -> AuditCase:
    """`product`: (x1 x2) x3 at (2, 3, 4). `mnist`: Q (K^T V), trained with the seed, on `limit` digits drawn by it."""
    if name == "product":
        return AuditCase(left_product, [torch.tensor(POINT)], "x1 x2 x3 at (2, 3, 4)")
    if name != "mnist":
        raise UnknownNameError("case", name, AUDIT_CASES)
    network = train(load_mnist("train"), seed=seed)
    digits = draw_digits(load_mnist("test"), limit=USUAL_LIMIT if limit is None else limit, seed=seed)
    return AuditCase(network, list(digits.pixels), f"{digits.title}, network of seed {seed}")

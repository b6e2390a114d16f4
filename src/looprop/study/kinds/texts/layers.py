"""The study of layers (RQ3): its methods by name, CP-LRP in some layers and AttnLRP in the others, and how flat the
attention of each layer is, kept beside the scores of AttnLRP.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from looprop.evaluation.example import Task, evaluate_example
from looprop.evaluation.setup import Setup
from looprop.evaluation.summary import by_method
from looprop.methods.rollout import attention_maps
from looprop.models.adapter import Adapter
from looprop.models.subject import bind
from looprop.running.parts import Row
from looprop.study.run import Run

BESIDE = "attnlrp"


def first_layers(k: int) -> str:
    """CP-LRP in the layers 1 to k."""
    return f"lrp[cp=:{k}]"


def from_layer(k: int) -> str:
    """CP-LRP in the layers k to last."""
    return f"lrp[cp={k}:]"


def only_layer(k: int) -> str:
    """CP-LRP in layer k alone."""
    return f"lrp[cp={k}]"


def layer_plans(layers: int) -> tuple[str, ...]:
    """All of them, for a model of so many layers.

    >>> layer_plans(2)
    ('lrp[cp=:1]', 'lrp[cp=:2]', 'lrp[cp=1:]', 'lrp[cp=2:]', 'lrp[cp=1]', 'lrp[cp=2]')
    """
    every = range(1, layers + 1)
    return (*map(first_layers, every), *map(from_layer, every), *map(only_layer, every))


def measure_with_entropy(adapter: Adapter, task: Task, setup: Setup) -> list[Row]:
    """The rows of one example, with the mean attention entropy of each layer beside those of AttnLRP."""
    rows = evaluate_example(adapter, task, setup)
    entropies: list[float] = []
    error = ""
    if not rows[0]["error"]:
        try:
            subject = bind(adapter, task.item, truncation=setup.truncation)
            entropies = [relative_entropy(weights) for weights in attention_maps(subject)]
        except Exception as raised:
            error = f"no entropy of attention: {type(raised).__name__}: {raised}"
    beside = {"entropy": entropies, **({"error": error} if error else {})}
    return [{**row, **(beside if row["method"] == BESIDE else {"entropy": []})} for row in rows]


def relative_entropy(weights: Tensor) -> float:
    """The entropy of attention rows as a share of its maximum, log T, averaged over heads and rows: 1 is flat, 0 is one
    key.

    >>> relative_entropy(torch.full((1, 3, 4), 0.25))
    1.0
    """
    if weights.shape[-1] < 2:
        return math.nan
    entropy = torch.special.entr(weights.double()).sum(-1) / math.log(weights.shape[-1])
    return float(entropy.mean())


def layer_entropy(run: Run) -> NDArray[np.float64]:
    """(K,) the mean relative attention entropy of each layer over examples."""
    return defined_mean(np.array([row["entropy"] for row in by_method(run.rows)[BESIDE] if row["entropy"]]), axis=0)


def defined_mean(values: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """The mean of what is defined; NaN where nothing is.

    >>> defined_mean(np.array([[1.0, np.nan], [3.0, np.nan]]), axis=0)
    array([ 2., nan])
    """
    defined = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        means: NDArray[np.float64] = np.where(defined, values, 0.0).sum(axis) / defined.sum(axis)
    return means

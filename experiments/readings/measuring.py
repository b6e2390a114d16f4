"""A block of images through one trained network: every correlation of table 1, under every choice that needs no new
network.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from looprop.running.parts import Row
from looprop.study import Task
from looprop.study.kinds.networks.training import LinearAttention

from .maps import Maps, attnlrp_both, integrated_gradients, leave_one_out
from .reading import Reading

ZEROS = ("zero", "black")
"""What a removed pixel, or the start of the line, becomes: the network's 0, or raw black."""
EPSILONS = (1e-6, 1e-2)
"""Of AttnLRP: the paper's, and one that is felt."""


@dataclass(frozen=True, eq=False)
class BlockTask(Task):
    """Some images of one network. item: their pixels (B, n), as the network takes them."""

    reading: str = ""
    seed: int = 0


def zeros_of(recipe: Reading) -> dict[str, float]:
    """What each zero is to a network; where pixels run from 0 to 1 both are one."""
    return {"zero": 0.0} if recipe.black == 0 else {"zero": 0.0, "black": recipe.black}


def measure_block(
    networks: Mapping[tuple[str, int], LinearAttention], recipes: Mapping[str, Reading], task: BlockTask
) -> list[Row]:
    """One row per pair of maps and choice: the mean of r over the block, raw and of maps divided by their sums."""
    network, pixels = networks[task.reading, task.seed], task.item
    with torch.no_grad():
        target = network(pixels).argmax(1)
    zeros = zeros_of(recipes[task.reading])
    about = {"example": task.id, "reading": task.reading, "seed": task.seed, "images": len(pixels)}
    return [{**about, **row, "error": ""} for row in _pairs(network, pixels, target, zeros)]


def _pairs(network: LinearAttention, x: Tensor, target: Tensor, zeros: Mapping[str, float]) -> Iterator[Row]:
    removed = {name: leave_one_out(network, x, target, zero) for name, zero in zeros.items()}
    gradients = {name: integrated_gradients(network, x, target, zero) for name, zero in zeros.items()}
    for loo_zero, loo in removed.items():
        for ig_zero, ig in gradients.items():
            yield {"pair": "ig", "loo zero": loo_zero, "ig zero": ig_zero, "epsilon": 0.0, **agreement(ig, loo)}
    for epsilon in EPSILONS:
        both = attnlrp_both(network, x, target, epsilon)
        yield {
            "pair": "l-r",
            "loo zero": "",
            "ig zero": "",
            "epsilon": epsilon,
            **agreement(both.kv_first, both.qk_first),
        }
        for loo_zero, loo in removed.items():
            for pair, maps in (("kv-first", both.kv_first), ("qk-first", both.qk_first)):
                yield {"pair": pair, "loo zero": loo_zero, "ig zero": "", "epsilon": epsilon, **agreement(maps, loo)}


def agreement(maps: Maps, others: Maps) -> Row:
    """Means of Pearson's r over images: of the maps as they are, and divided by their sums, which turns the sign of r
    where exactly one of the two sums is negative; the share of such images, and how many have no r.

    Divided by the sum of absolute values, maps have the r of the maps as they are.
    """
    r = _pearson_rows(maps, others)
    signs = np.sign(maps.sum(1)) * np.sign(others.sum(1))
    defined = np.isfinite(r)
    turned = np.where(signs == 0, np.nan, signs * r)[defined]
    return {
        "raw": float(r[defined].mean()) if defined.any() else float("nan"),
        "sum": float(np.nanmean(turned)) if np.isfinite(turned).any() else float("nan"),
        "turned": float((signs[defined] < 0).mean()) if defined.any() else float("nan"),
        "defined": int(defined.sum()),
    }


def _pearson_rows(maps: Maps, others: Maps) -> NDArray[np.float64]:
    """Pearson's r of every row of two maps; NaN where one of them is constant."""
    a, b = maps - maps.mean(1, keepdims=True), others - others.mean(1, keepdims=True)
    size = np.sqrt((a * a).sum(1) * (b * b).sum(1))
    with np.errstate(invalid="ignore", divide="ignore"):
        r: NDArray[np.float64] = np.where(size > 0, (a * b).sum(1) / size, np.nan)
    return r

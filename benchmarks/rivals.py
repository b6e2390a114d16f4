"""The other ways to answer what the set function answers: a batched loop over attention masks, and captum's
FeatureAblation.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Bools = NDArray[np.bool_]
Forward = Callable[[Tensor], Tensor]
"""Attention masks (B, T) -> logits of the target (B,)."""


def masked_forward(model: Any, ids: Tensor, *, causal: bool = False) -> Forward:
    """The model as a user would call it: all positions, with an attention mask; class or token 1."""
    positions = torch.arange(ids.shape[1])[None]

    def forward(mask: Tensor) -> Tensor:
        batch: dict[str, Any] = {"input_ids": ids.expand(len(mask), -1), "attention_mask": mask}
        if causal:
            batch |= {"position_ids": positions.expand(len(mask), -1), "use_cache": False, "logits_to_keep": 1}
        logits: Tensor = model(**batch).logits
        return logits[:, -1, 1] if causal else logits[:, 1]

    return forward


def batched_loop(forward: Forward, keep: Bools, size: int) -> Tensor:
    """All variants, so many at a time."""
    with torch.inference_mode():
        masks = torch.from_numpy(keep).long()
        return torch.cat([forward(masks[start : start + size]) for start in range(0, len(masks), size)])


def captum_ablation(forward: Forward, positions: list[int], length: int, size: int) -> tuple[Callable[[], Tensor], int]:
    """Leave-one-out of some positions by captum, and how many variants it runs: all other positions are one feature
    more.
    """
    from captum.attr import FeatureAblation

    feature_mask = torch.full((1, length), len(positions))
    feature_mask[0, positions] = torch.arange(len(positions))
    variants = int(feature_mask.max()) + 1 + 1  # and the intact input
    ablation = FeatureAblation(lambda mask: forward(mask.long()))
    ones = torch.ones(1, length)

    def run() -> Tensor:
        with torch.inference_mode():
            scores: Tensor = ablation.attribute(
                ones, baselines=0.0, feature_mask=feature_mask, perturbations_per_eval=size
            )
            return scores[0, positions]

    return run, variants

"""Attention as a calculation: what a site was given, and what is added to its scores."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class AttentionSite:
    """What one attention site computed. Tensors are kept only when the mode records.

    layer: 1-based, in order of the forward pass.
    query, key, value: (B, H, T, d) as the model gave them; output: (B, H, T, d); weights: (B, H, T, T), eager form
        only.
    """

    layer: int
    fused: bool
    query: Tensor | None = None
    key: Tensor | None = None
    value: Tensor | None = None
    mask: Tensor | None = None
    causal: bool = False
    scale: float | None = None
    weights: Tensor | None = None
    output: Tensor | None = None
    bias: Tensor | None = None


def heads_of_one(tensor: Tensor, weights: Tensor) -> Tensor:
    """A site's weights, values, output or gradient on a batch of one input, as (H, T, d).

    weights: as the softmax gave them, (1, H, T, T), or (H, T, T) where the model folds heads into the batch or has one
        head.
    """
    if weights.dim() == 4 and tensor.dim() == 3:
        tensor = tensor.reshape(*weights.shape[:2], *tensor.shape[1:])
    return tensor[0] if tensor.dim() == 4 else tensor


def additive_mask(mask: Tensor | None, causal: bool, rows: int, columns: int, like: Tensor) -> Tensor | None:
    """The mask of a fused attention call as numbers to add to the scores."""
    if causal:
        allowed = torch.ones(rows, columns, dtype=torch.bool, device=like.device).tril()
        return torch.zeros(rows, columns, dtype=like.dtype, device=like.device).masked_fill_(~allowed, -math.inf)
    if mask is not None and mask.dtype == torch.bool:
        return torch.zeros(mask.shape, dtype=like.dtype, device=like.device).masked_fill_(~mask, -math.inf)
    return mask

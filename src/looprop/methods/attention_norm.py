"""Attention times the norm of what it reads, over the layers (after Kobayashi et al. 2020).

C(l)_ij = | (A_1ij V_1j, ..., A_Hij V_Hj) |, rows to one, then rolled out as attention is:  (C(l) + I) / 2
"""

import torch
from torch import Tensor

from looprop.methods.parts.attention_layers import (
    AttentionMethod,
    attention_layers,
    rollout,
    rows_to_one,
    values_of,
    weights_of,
)
from looprop.models.subject import Subject


class AttentionNorm(AttentionMethod):
    """Rollout in which a weight counts as much as the vector that it weighs. Cost 1.

    residual: count the residual connection as half of every layer, or leave it out.
    """

    name = "attention-norm"
    title = "Attention times norm"
    short = "Attention x norm"
    summary = "product over the layers of attention times the norm of the values that it weighs"
    cost = "1"
    kind = "weight"

    def __init__(self, *, residual: bool = True) -> None:
        self.residual = residual

    def flow(self, subject: Subject) -> Tensor:
        with attention_layers(subject, self.name) as (_, layers):
            maps = []
            for layer in layers:
                # Several sites of one layer weigh several sets of values with the same weights.
                squares = torch.stack([values_of(site).square().sum(-1) for site in layer]).sum(0)  # (H, T)
                sizes = (weights_of(layer[0]).square() * squares[:, None]).sum(0).sqrt()  # (T, T)
                maps.append(rows_to_one(sizes))
        return rollout(maps, residual=self.residual)

"""Attention rollout (Abnar & Zuidema 2020): the product of head-averaged attention over layers.

Printed form: A~(l) = A(l) A~(l-1), A~(0) = I. With the residual: A(l) is replaced by (A(l) + I) / 2.
"""

from torch import Tensor

from looprop.methods.parts.attention_layers import AttentionMethod, attention_layers, rollout, weights_of
from looprop.models.subject import Subject


def attention_maps(subject: Subject) -> list[Tensor]:
    """The attention weights (H, T, T) of every layer on one input; what an attention sink takes is left out."""
    with attention_layers(subject, "rollout") as (_, layers):
        return [weights_of(layer[0]) for layer in layers]


class AttentionRollout(AttentionMethod):
    """How much of each position reaches the read-out if only attention moved information. Cost 1.

    residual: count the residual connection as half of every layer (the default), or leave it out as printed.
    """

    name = "rollout"
    title = "Attention rollout"
    short = "Rollout (with residual)"
    summary = "product of head-averaged attention over the layers"
    cost = "1"
    kind = "weight"
    reads_target = False

    def __init__(self, *, residual: bool = True) -> None:
        self.residual = residual

    def flow(self, subject: Subject) -> Tensor:
        maps = attention_maps(subject)
        return rollout([m.mean(0) for m in maps], residual=self.residual)

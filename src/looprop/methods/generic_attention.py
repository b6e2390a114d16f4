"""Generic attention explainability (Chefer, Gur & Wolf 2021): attention, weighed by its gradient, over the layers.

A-(l) = mean over heads of (dA(l) * A(l))+,    R(l) = R(l-1) + A-(l) R(l-1),    R(0) = I
"""

import torch
from torch import Tensor

from looprop.intercept.attention import AttentionSite, heads_of_one
from looprop.methods.parts.attention_layers import AttentionMethod, attention_layers, values_of, weights_of
from looprop.models.subject import Subject
from looprop.propagation.tape import unseen


class GenericAttention(AttentionMethod):
    """What attention brings to the read-out where that raises the target. Cost 3."""

    name = "generic-attention"
    title = "Generic attention explainability"
    short = "Chefer et al."
    summary = "attention times its gradient, negative parts left out, over the layers"
    cost = "3"
    kind = "weight"

    def flow(self, subject: Subject) -> Tensor:
        """R of the last layer, without what every position was given of itself at the start."""
        with attention_layers(subject, self.name) as (traced, layers):
            outputs = [site.output for layer in layers for site in layer if site.output is not None]
            found = traced.tape.gradients_or_none(traced.value(subject.target), outputs)
            gradients = iter([torch.zeros_like(o) if g is None else g for o, g in zip(outputs, found, strict=True)])
            with unseen():
                maps = [
                    torch.stack([weight_gradient(site, next(gradients)) for site in layer]).sum(0) for layer in layers
                ]
                relevances = [
                    (slopes * weights_of(layer[0])).clamp(min=0).mean(0)
                    for slopes, layer in zip(maps, layers, strict=True)
                ]
        identity = torch.eye(len(relevances[0]), dtype=relevances[0].dtype, device=relevances[0].device)
        flow = identity
        for relevance in relevances:
            flow = flow + relevance @ flow
        return flow - identity


def weight_gradient(site: AttentionSite, gradient: Tensor) -> Tensor:
    """The gradient of a site's weights (H, T, T) from that of its output, O = A V:  dA = dO V^T."""
    return heads_of_one(gradient, site.all_weights()) @ values_of(site).mT

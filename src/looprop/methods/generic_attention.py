"""Generic attention explainability (Chefer, Gur & Wolf 2021): attention, weighed by its gradient, over the layers.

A-(l) = mean over heads of (dA(l) * A(l))+,    R(l) = R(l-1) + A-(l) R(l-1),    R(0) = I
"""

import torch
from torch import Tensor

from looprop.intercept.attention import heads_of_one
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
                relevances = []
                for layer in layers:
                    # O = A V, so the gradient of the weights (H, T, T) is dA = dO V^T.
                    slopes = [heads_of_one(next(gradients), site.all_weights()) @ values_of(site).mT for site in layer]
                    relevances.append((torch.stack(slopes).sum(0) * weights_of(layer[0])).clamp(min=0).mean(0))
        identity = torch.eye(len(relevances[0]), dtype=relevances[0].dtype, device=relevances[0].device)
        flow = identity
        for relevance in relevances:
            flow = flow + relevance @ flow
        return flow - identity

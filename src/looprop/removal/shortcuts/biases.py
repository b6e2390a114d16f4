"""What attention adds to its scores by distance, of the whole input, for models that run only some of its rows.

A model with relative positions (MPNet, T5) takes distances from where the rows stand, so that dropped rows would bring
the others nearer. Its attention is answered in its place: with the rows' own queries and keys, and the bias that the
whole input had.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from looprop.errors import LoopropError
from looprop.intercept.attention import SiteBias, attention_scores
from looprop.intercept.sites import WrittenSite
from looprop.models.subject import Subject
from looprop.removal.trust import once

# Biases are read off as differences of scores: so far those of two layers may be apart and still be one.
ROUNDING = 1e-5


def recorded_biases(subject: Subject) -> list[SiteBias] | None:
    """The biases of all sites, read off one run of the intact input; None where they are not known or too large to be
    recorded.
    """
    cache = subject.cache
    if not cache.biases_sought:
        cache.biases, cache.biases_sought = _known_or_none(subject), True
    return cache.biases


def _known_or_none(subject: Subject) -> list[SiteBias] | None:
    try:
        return _record(subject) if once(subject, "has biases", lambda: _has_biases(subject)) else None
    except Exception:  # for this input
        return None


def _has_biases(subject: Subject) -> bool:
    """Are there any that can be read off this model?"""
    try:
        return _record(subject) is not None
    except LoopropError:
        return False


def _record(subject: Subject) -> list[SiteBias] | None:
    with subject.adapter.traced(subject.encoded.inputs, record=True) as traced:
        sites = traced.tape.sites
    biases: list[SiteBias] = []
    for site in sites:
        if site.bias is None or site.scale is None or site.bias.dim() != 4:
            return None
        added = site.bias[0]
        if biases and torch.allclose(added, biases[-1].added, rtol=0.0, atol=ROUNDING):
            added = biases[-1].added  # most models have one bias for all layers: kept once
        biases.append(SiteBias(added, site.scale))
    return biases


def biased_site(biases: Sequence[SiteBias], rows: Tensor, read: Tensor) -> WrittenSite:
    """Answers attention among rows (B, R) of the input, of which those in read (B, R) have a key."""
    barred = ~read[:, None, None]

    def weights(layer: int, query: Tensor, key: Tensor) -> Tensor:
        site = biases[layer - 1]
        scores = attention_scores(query, key, site.scale)  # (B, H, R, R)
        scores += site.added[:, rows[:, :, None], rows[:, None]].transpose(0, 1)
        return torch.softmax(scores.masked_fill_(barred, -math.inf), -1)

    return WrittenSite(weights=weights, values=lambda layer, weights, value: weights @ value)

"""Attention as a calculation, once for all: what a site is given, its scores, its weights, its masks.

A site is one attention of a forward pass: a single fused call of torch (`scaled_dot_product_attention`), or the same
written out as matmul, softmax, matmul. Sites are numbered from 1 in the order of the forward pass; that is what plans
call layers, but for a call that repeats the one before it with other values (differential attention), which belongs to
its layer. Shapes: query (B, H, R, d), key and value (B, H', T, d); H' < H where groups of queries share keys.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import Tensor
from torch.nn import functional

_NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")


@dataclass(frozen=True)
class AttentionCall:
    """The arguments of one fused call, by name, and the number of its site. Dropout is left out: models predict."""

    layer: int
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None = None
    causal: bool = False
    scale: float | None = None
    grouped: bool = False

    @classmethod
    def parse(cls, layer: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> AttentionCall:
        """A call of scaled_dot_product_attention as torch was given it."""
        given = {**dict(zip(_NAMES, args, strict=False)), **kwargs}
        causal, grouped = bool(given.get("is_causal", False)), bool(given.get("enable_gqa", False))
        mask, scale = given.get("attn_mask"), given.get("scale")
        return cls(layer, given["query"], given["key"], given["value"], mask, causal, scale, grouped)

    def but(self, **changes: Any) -> AttentionCall:
        """The same call with some arguments changed."""
        return replace(self, **changes)

    def run(self) -> Tensor:
        """What torch answers."""
        given: dict[str, Any] = {"attn_mask": self.mask, "is_causal": self.causal, "scale": self.scale}
        grouped = self.grouped
        return functional.scaled_dot_product_attention(self.query, self.key, self.value, enable_gqa=grouped, **given)

    def written(self) -> Tensor:
        """The same, written out as matmul, softmax, matmul."""
        key, value = (shared_by_groups(x, self.query) for x in (self.key, self.value))
        scores, added = attention_scores(self.query, key, self.scale), self.added(self.query)
        if added is not None:
            # A row without any key is a row of padding, which nobody reads: a very low number keeps it a number.
            scores = scores + added.clamp(min=torch.finfo(added.dtype).min)
        return torch.softmax(scores, dim=-1) @ value

    def added(self, like: Tensor) -> Tensor | None:
        """What is added to the scores: its mask as numbers."""
        return additive_mask(self.mask, self.causal, self.query.shape[-2], self.key.shape[-2], like)


@dataclass
class AttentionSite:
    """What one attention site computed. Tensors are kept only when the mode records.

    number: 1-based, in order of the forward pass. layer: the same, with calls that put the same queries to the same
        keys counted once.
    asked: the query and the key of a fused call, as weak references.
    query, key, value: (B, H, T, d) as the model gave them; output: (B, H, T, d); weights: (B, H, T, T), written-out
        form only, as they meet the values: what an attention sink takes is left out.
    bias: what was added to the product of queries and keys, where that is known, and sink: the score of a sink beside
        the keys, (B, H, T, 1).
    products: how often weights met values; a site with two outputs has no single one. changed: whether they were
        others by then than the softmax had made.
    """

    number: int
    layer: int
    fused: bool
    asked: tuple[ReferenceType[Tensor], ReferenceType[Tensor]] | None = None
    query: Tensor | None = None
    key: Tensor | None = None
    value: Tensor | None = None
    mask: Tensor | None = None
    causal: bool = False
    scale: float | None = None
    weights: Tensor | None = None
    output: Tensor | None = None
    bias: Tensor | None = None
    sink: Tensor | None = None
    products: int = 0
    changed: bool = False

    @classmethod
    def after(cls, sites: list[AttentionSite], call: AttentionCall | None = None) -> AttentionSite:
        """The next site, or another call of the last one: call, where it is fused. It is added to the sites."""
        layer, asked = (sites[-1].layer, sites[-1].asked) if sites else (0, None)
        again = asked is not None and call is not None and asked[0]() is call.query and asked[1]() is call.key
        site = cls(len(sites) + 1, layer + (not again), fused=call is not None)
        if call is not None:
            site.asked = (ref(call.query), ref(call.key))
        sites.append(site)
        return site

    def all_weights(self) -> Tensor:
        """The weights (B, H, T, T): as they were, or computed again from queries and keys."""
        if self.weights is not None:
            return self.weights
        assert self.query is not None
        assert self.key is not None
        query, key = self.query.detach(), self.key.detach()
        scores = attention_scores(query, shared_by_groups(key, query), self.scale)
        added = additive_mask(self.mask, self.causal, query.shape[-2], key.shape[-2], scores)
        return torch.softmax(scores if added is None else scores + added, dim=-1)


@dataclass(frozen=True)
class SiteBias:
    """One written-out site: what is added to its scores (H, T, T), and the scale of the product before that."""

    added: Tensor
    scale: float


def usual_scale(query: Tensor, scale: float | None = None) -> float:
    """The factor of the scores: 1 / sqrt(d) unless another is given."""
    return scale if scale is not None else 1.0 / math.sqrt(query.shape[-1])


def attention_scores(query: Tensor, key: Tensor, scale: float | None = None) -> Tensor:
    """Q K^T times their scale: (..., R, T)."""
    return query @ key.transpose(-2, -1) * usual_scale(query, scale)


def shared_by_groups(keys: Tensor, query: Tensor) -> Tensor:
    """Keys or values (..., H', T, d) repeated for every query head (..., H, T, d) that shares them."""
    groups = query.shape[-3] // keys.shape[-3]
    return keys.repeat_interleave(groups, -3) if groups > 1 else keys


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
        later = torch.ones(rows, columns, dtype=torch.bool, device=like.device).triu(1)
        return barred_scores(later, like)
    if mask is not None and mask.dtype == torch.bool:
        return barred_scores(~mask, like)
    return mask


def barred_scores(barred: Tensor, like: Tensor) -> Tensor:
    """What added to scores bars some of them: minus infinity where `barred`, else zero."""
    return torch.zeros(barred.shape, dtype=like.dtype, device=like.device).masked_fill_(barred, -math.inf)

"""Running a few rows of a sequence while all other rows keep the keys and values of the intact input.

At each attention site the rows carried for a variant meet the cached keys and values of the intact input, with the
variant's own columns replaced by its own new keys and values and with the removed columns barred.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from looprop.intercept.attention import AttentionCall, AttentionSite, additive_mask, shared_by_groups, usual_scale
from looprop.intercept.sites import SiteMode, WrittenSite


@dataclass(frozen=True)
class Kept:
    """One site of the intact input: keys and values (H, T, d), what is added to the scores (H or 1, T, T), their scale,
    and the scores of a sink (H, T, 1).
    """

    key: Tensor
    value: Tensor
    mask: Tensor | None
    scale: float | None
    sink: Tensor | None = None


def keep_site(site: AttentionSite) -> Kept | None:
    """Get the keys and values that variants need from a recorded attention site; None if they are not known."""
    if site.query is None or site.key is None or site.value is None:
        return None
    query, key, value = site.query.detach(), site.key.detach(), site.value.detach()
    if not site.fused:
        if site.bias is None or query.dim() not in (3, 4) or value.dim() not in (3, 4):
            return None
        # Heads that are folded into the batch stand first then, as they do in the one row of a batch.
        key, value, bias = (x[0] if x.dim() == 4 else x for x in (key, value, site.bias))
        sink = None if site.sink is None else site.sink[0]
        return Kept(key, value, bias, site.scale, sink) if len(key) == len(value) else None
    mask = additive_mask(site.mask, site.causal, query.shape[2], key.shape[2], query)
    if mask is not None:
        mask = mask.reshape(-1, *mask.shape[-2:]) if mask.dim() == 4 else mask.expand(1, *mask.shape[-2:])
        mask = mask.expand(-1, query.shape[2], -1)  # it may be one for all rows
    return Kept(shared_by_groups(key, query)[0], shared_by_groups(value, query)[0], mask, site.scale)


def carried_weights(kept: Kept, query: Tensor, key: Tensor, rows: Tensor, barred: Tensor) -> Tensor:
    """Attention weights (N, H, k, T) of rows (N, k) of N variants whose keys barred (N, T) are gone; a sink has a
    column of its own after them.

    query, key: (N, H, k, d) of the rows themselves.
    """
    count, heads, width, size = query.shape
    query = query * usual_scale(query, kept.scale)
    # One product with the shared keys for all variants at once: (H, N k, d) x (H, d, T).
    flat = query.transpose(0, 1).reshape(heads, count * width, size)
    shared = torch.bmm(flat, kept.key.transpose(1, 2)).view(heads, count, width, -1).transpose(0, 1)  # (N, H, k, T)
    scores = shared.scatter(3, _columns(rows, heads), query @ key.transpose(-2, -1))
    if kept.mask is not None:
        scores = scores + kept.mask[:, rows].transpose(0, 1)
    # Filled, not added: the own key of a row without any key left is no number, and is barred with it.
    scores = scores.masked_fill_(barred[:, None, None], -math.inf)
    if kept.sink is not None:
        scores = torch.cat([scores, kept.sink[:, rows].transpose(0, 1)], -1)
    return torch.softmax(scores, -1).nan_to_num_(0.0)


def carried_values(kept: Kept, weights: Tensor, value: Tensor, rows: Tensor) -> Tensor:
    """What the rows read: their own new values (N, H, k, d) in their own columns, the intact ones elsewhere."""
    count, heads, width, _ = weights.shape
    columns = _columns(rows, heads)
    own = weights.gather(3, columns)  # (N, H, k, k)
    flat = weights.scatter(3, columns, 0.0).transpose(0, 1).reshape(heads, count * width, -1)
    shared = torch.bmm(flat, kept.value).view(heads, count, width, -1).transpose(0, 1)
    return shared + own @ value


def _columns(rows: Tensor, heads: int) -> Tensor:
    return rows[:, None, None].expand(-1, heads, rows.shape[1], -1)  # (N, H, k, k)


def carrying(sites: list[Kept], rows: Tensor, barred: Tensor) -> SiteMode:
    """A mode in which a model runs on rows (N, k) of N variants, each with its keys barred (N, T)."""

    def fused(call: AttentionCall) -> Tensor:
        kept, key, value = sites[call.layer - 1], *(shared_by_groups(x, call.query) for x in (call.key, call.value))
        return carried_values(kept, carried_weights(kept, call.query, key, rows, barred), value, rows)

    def unfolded(tensor: Tensor) -> Tensor:
        """Heads in a dimension of their own: (N H, k, d) -> (N, H, k, d)."""
        return tensor.reshape(len(rows), -1, *tensor.shape[1:]) if tensor.dim() == 3 else tensor

    def weights(layer: int, query: Tensor, key: Tensor) -> Tensor:
        return carried_weights(sites[layer - 1], unfolded(query), unfolded(key), rows, barred)

    def values(layer: int, weights: Tensor, value: Tensor) -> Tensor:
        out = carried_values(sites[layer - 1], unfolded(weights), unfolded(value), rows)
        return out.flatten(0, 1) if weights.dim() == 3 else out

    return SiteMode(fused=fused, written=WrittenSite(weights, values))

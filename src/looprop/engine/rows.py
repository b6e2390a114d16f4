"""Running a few rows of a sequence while all other rows keep the keys and values of the intact input.

At each attention site the rows carried for a variant meet the cached keys and values of the intact input, with the
variant's own columns replaced by its own new keys and values and with the removed columns barred.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from looprop.engine.attention import AttentionSite, additive_mask
from looprop.engine.sites import FusedCall, SiteMode
from looprop.errors import RuleError


@dataclass(frozen=True)
class Kept:
    """Keys and values (H, T, d) of one intact site, and its mask (H or 1, T, T) of numbers to add, None for none."""

    key: Tensor
    value: Tensor
    mask: Tensor | None


def keep_site(site: AttentionSite) -> Kept:
    """What the rows of variants need from a recorded site of the intact input (a batch of one)."""
    if not site.fused or site.query is None or site.key is None or site.value is None:
        raise RuleError("rows can be carried only through fused attention: load the model with attn_implementation='sdpa'")
    query, key, value = site.query.detach(), site.key.detach(), site.value.detach()
    groups = query.shape[1] // key.shape[1]
    mask = additive_mask(site.mask, site.causal, query.shape[2], key.shape[2], query)
    if mask is not None:
        mask = mask.reshape(-1, *mask.shape[-2:]) if mask.dim() == 4 else mask.expand(1, *mask.shape[-2:])
    return Kept(key[0].repeat_interleave(groups, 0), value[0].repeat_interleave(groups, 0), mask)


def carry(kept: Kept, call: FusedCall, rows: Tensor, barred: Tensor) -> Tensor:
    """What one site answers to rows (N, k) of N variants whose keys barred (N, T) are gone: (N, H, k, d)."""
    query = call.query  # (N, H, k, d)
    count, heads, width, _ = query.shape
    groups = heads // call.key.shape[1]
    own_key, own_value = (x.repeat_interleave(groups, 1) if groups > 1 else x for x in (call.key, call.value))
    query = query * (call.scale if call.scale is not None else 1.0 / math.sqrt(query.shape[-1]))
    # One product with the shared keys for all variants at once: (H, N k, d) x (H, d, T).
    flat = query.transpose(0, 1).reshape(heads, count * width, -1)
    shared = torch.bmm(flat, kept.key.transpose(1, 2)).view(heads, count, width, -1).transpose(0, 1)  # (N, H, k, T)
    columns = rows[:, None, None].expand(-1, heads, width, -1)  # (N, H, k, k)
    scores = shared.scatter(3, columns, query @ own_key.transpose(-2, -1))
    if kept.mask is not None:
        scores = scores + kept.mask[:, rows].transpose(0, 1)
    # Filled, not added: the own key of a row without any key left is no number, and is barred with it.
    scores = scores.masked_fill_(barred[:, None, None], -math.inf)
    weights = torch.softmax(scores, -1).nan_to_num_(0.0)
    own_weights = weights.gather(3, columns)  # (N, H, k, k)
    flat = weights.scatter_(3, columns, 0.0).transpose(0, 1).reshape(heads, count * width, -1)
    out = torch.bmm(flat, kept.value).view(heads, count, width, -1).transpose(0, 1)
    return out + own_weights @ own_value


def carrying(
    sites: list[Kept],
    rows: Tensor,
    barred: Tensor,
    *,
    positions: tuple[Tensor, Tensor] | None = None,
    select: Callable[[Tensor], Tensor] | None = None,
) -> SiteMode:
    """A mode in which a model runs on rows (N, k) of N variants, each with its keys barred (N, T).

    positions: for models that take no position ids. select: cuts the rows out of the embedded sequence, for models that
    cannot be given rows (images).
    """
    return SiteMode(fused=lambda call: carry(sites[call.layer - 1], call, rows, barred), positions=positions, embedded=select)

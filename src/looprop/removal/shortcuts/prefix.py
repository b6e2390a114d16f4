"""Causal models: everything before the first removed token is as in the intact input, and is computed once."""

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from looprop.models.subject import Subject
from looprop.removal.shortcuts.dropped import fewer_rows, gathered, rows_needed


class _Prefix(DynamicLayer):  # type: ignore[misc]
    """The keys and values (1, H, S, d) that stand before those of every variant. Keeps nothing of what it is given."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """All keys and values of one layer: (B, H, R, d) -> (B, H, S + R, d)."""
        keys, values = (before.expand(len(key_states), -1, -1, -1) for before in (self.keys, self.values))
        return torch.cat([keys, key_states], 2), torch.cat([values, value_states], 2)


def shared_prefix(subject: Subject, keep: Tensor) -> Tensor:
    """How many leading positions each variant leaves untouched; rows that are read are always computed: (B,)."""
    return keep.to(torch.uint8).cumprod(1).sum(1).clamp(max=len(subject.encoded) - subject.target.positions)


def rows_left(subject: Subject, keep: Tensor) -> Tensor:
    """How many rows each variant has to compute for itself. (B, T) -> (B,)"""
    return rows_needed(subject, keep).sum(1) - shared_prefix(subject, keep)


class PrefixSharing:
    """Run each variant on the rows that it needs after its first removed token."""

    def __init__(self, subject: Subject, *, sites: int) -> None:
        self.subject, self.sites = subject, sites
        self._cache: list[tuple[Tensor, Tensor]] | None = None

    def __call__(self, keep: Tensor) -> Tensor:
        """The logits (B, K, C) of variants (B, T)."""
        subject, adapter, count = self.subject, self.subject.adapter, len(keep)
        shared = shared_prefix(subject, keep)  # (B,)
        if adapter.positions.window is not None:
            # A window counts columns: with one prefix for all there are no more of them than positions.
            shared = shared.min().expand(len(keep))
        longest = int(shared.max())
        before = torch.arange(keep.shape[1], device=keep.device)[None] < shared[:, None]  # (B, T)
        index, present = gathered(rows_needed(subject, keep) & ~before, left=True)
        if self.sites and 1 < count == index.shape[1]:
            # As many variants as rows: in a model with time first, one could be taken for the other.
            keep, before, index, present = (torch.cat([x, x[:1]]) for x in (keep, before, index, present))
        # A variant reads its own prefix only, and of its own rows those that are kept.
        read = torch.cat([before[:, :longest], keep.gather(1, index) & present], 1)
        batch, placed = adapter.at_rows(subject.encoded, index, read=read)
        past = {"past_key_values": self._past(longest)} if longest else {}
        with fewer_rows(subject, self.sites, index), placed:
            return adapter.forward({**batch, **past}, positions=subject.target.positions)[:count]

    def _past(self, length: int) -> DynamicCache:
        if self._cache is None:
            # A cache without a configuration keeps all positions, also those that slide out of a window at the very
            # end.
            cache = DynamicCache()
            self.subject.adapter.forward({**self.subject.encoded.inputs, "past_key_values": cache})
            self._cache = [(layer.keys, layer.values) for layer in cache.layers]
        past = DynamicCache()
        for keys, values in self._cache:
            layer = _Prefix()
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = keys[:, :, :length], values[:, :, :length]
            past.layers.append(layer)
        return past

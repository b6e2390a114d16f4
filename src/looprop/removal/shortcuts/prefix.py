"""Causal models: everything before the first removed token is as in the intact input, and is computed once."""

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from looprop.intercept.attention import AttentionCall
from looprop.models.subject import Subject
from looprop.removal.shortcuts.dropped import fewer_rows, gathered

# Rows of one block of attention.
BLOCK = 128


class _Prefix(DynamicLayer):  # type: ignore[misc]
    """The keys and values (1, H, S, d) that stand before those of every variant. Keeps nothing of what it is given."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """All keys and values of one layer: (B, H, R, d) -> (B, H, S + R, d)."""
        keys, values = (before.expand(len(key_states), -1, -1, -1) for before in (self.keys, self.values))
        return torch.cat([keys, key_states], 2), torch.cat([values, value_states], 2)


class CausalBlocks:
    """Answers attention in blocks of rows, each with the keys up to its own last: what comes later is barred for it.

    A mask of queries and keys would have all of them computed, which for the rows of a suffix is most of the work. At
    the last site only the rows that are read have queries. read: how many of the last rows that are.
    """

    def __init__(self, read: int) -> None:
        self.read = read
        self._causal: tuple[Tensor, bool] | None = None

    def __call__(self, call: AttentionCall, last: bool) -> Tensor:
        """What attention answers to all rows; of the last site to those that are read, and zero to the others."""
        if call.causal or call.mask is None or not self._bars_what_comes_later(call):
            return call.run()
        rows, keys = call.query.shape[-2], call.key.shape[-2]
        start = rows - self.read if last and self.read else 0
        out = call.query.new_zeros(*call.query.shape[:-1], call.value.shape[-1])
        for first in range(start, rows, BLOCK):
            stop = min(first + BLOCK, rows)
            seen = keys - rows + stop
            part = call.but(
                query=call.query[..., first:stop, :],
                key=call.key[..., :seen, :],
                value=call.value[..., :seen, :],
                mask=call.mask[..., first:stop, :seen],
            )
            out[..., first:stop, :] = part.run()
        return out

    def _bars_what_comes_later(self, call: AttentionCall) -> bool:
        """Does the mask bar, for every block, all keys after its last row? Looked at once per mask."""
        mask = call.mask
        assert mask is not None
        if self._causal is None or self._causal[0] is not mask:
            rows, keys = call.query.shape[-2], call.key.shape[-2]
            open_ = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
            holds = mask.shape[-2:] == (rows, keys) and not any(
                open_[..., first : first + BLOCK, keys - rows + first + BLOCK :].any()
                for first in range(0, rows, BLOCK)
            )
            self._causal = (mask, holds)
        return self._causal[1]


def shared_prefix(subject: Subject, keep: Tensor) -> Tensor:
    """How many leading positions each variant leaves untouched; rows that are read are always computed: (B,)."""
    return keep.to(torch.uint8).cumprod(1).sum(1).clamp(max=subject.length - subject.target.positions)


def rows_left(subject: Subject, keep: Tensor) -> Tensor:
    """How many rows each variant has to compute for itself. (B, T) -> (B,)"""
    return subject.count_rows(keep) - shared_prefix(subject, keep)


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
        index, present = gathered(subject.rows_needed(keep) & ~before, left=True)
        if self.sites and 1 < count == index.shape[1]:
            # As many variants as rows: in a model with time first, one could be taken for the other.
            keep, before, index, present = (torch.cat([x, x[:1]]) for x in (keep, before, index, present))
        # A variant reads its own prefix only, and of its own rows those that are kept.
        read = torch.cat([before[:, :longest], keep.gather(1, index) & present], 1)
        batch, placed = adapter.at_rows(subject.encoded, index, read=read)
        past = {"past_key_values": self._past(longest)} if longest else {}
        attend = CausalBlocks(subject.answer_rows.last) if index.shape[1] >= 2 * BLOCK else None
        with fewer_rows(subject, self.sites, index, attend), placed:
            return adapter.logits({**batch, **past}, positions=subject.target.positions)[:count]

    def _past(self, length: int) -> DynamicCache:
        if self._cache is None:
            # A cache without a configuration keeps all positions, also those that slide out of a window at the very
            # end.
            cache = DynamicCache()
            self.subject.adapter.logits({**self.subject.encoded.inputs, "past_key_values": cache})
            self._cache = [(layer.keys, layer.values) for layer in cache.layers]
        past = DynamicCache()
        for keys, values in self._cache:
            layer = _Prefix()
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = keys[:, :, :length], values[:, :, :length]
            past.layers.append(layer)
        return past

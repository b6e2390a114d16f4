"""Many variants in one long row, without padding and without masks: attention stays within each variant."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import pad

from looprop.errors import ModelError
from looprop.intercept.attention import AttentionCall
from looprop.intercept.fewer_rows import FewerRowsMode
from looprop.models.subject import Subject


@dataclass(frozen=True)
class Block:
    """Neighbours of one length in the long row: rows start to start + count * length. barred: their first key is
    removed.
    """

    start: int
    count: int
    length: int
    barred: bool

    @property
    def stop(self) -> int:
        """The first row after them."""
        return self.start + self.count * self.length


def attend_within(blocks: list[Block], call: AttentionCall, last: bool) -> Tensor:
    """Attention within each variant of the long row; at the last site only for the first row of each."""
    if call.mask is not None or call.causal or call.grouped or call.query.dim() != 4 or len(call.query) != 1:
        raise ModelError("attention that is more than queries, keys and values of one row cannot be packed")
    # (1, H, N, d) -> (N, H, d), which is how models store them
    query, key, value = (x[0].transpose(0, 1) for x in (call.query, call.key, call.value))
    shape_out = (*query.shape[:2], value.shape[-1])
    out = query.new_zeros(shape_out) if last else query.new_empty(shape_out)
    for block in blocks:
        rows, shape = slice(block.start, block.stop), (block.count, block.length, query.shape[1], -1)
        q, k, v = (x[rows].reshape(shape).transpose(1, 2) for x in (query, key, value))  # (B, H, L, d)
        if block.barred:
            k, v = k[:, :, 1:], v[:, :, 1:]
        if last:
            q, rows = q[:, :, :1], slice(block.start, block.stop, block.length)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=call.scale)
        out[rows] = mixed.transpose(1, 2).flatten(0, 1)
    return out.transpose(0, 1)[None]


def packed_rows(subject: Subject, *, sites: int) -> Callable[[Tensor], Tensor]:
    """Run all variants on their needed rows in one long row. Kept positions (B, T) -> logits (B, 1, C)."""
    return lambda keep: packed_texts([(subject, keep)], sites=sites)[0]


def packed_texts(texts: Sequence[tuple[Subject, Tensor]], *, sites: int) -> list[Tensor]:
    """The same for variants of several texts of one model, all in one long row: the logits (B, 1, C) of each."""
    adapter, longest = texts[0][0].adapter, max(keep.shape[1] for _, keep in texts)
    needed = torch.cat([pad(subject.rows_needed(keep), (0, longest - keep.shape[1])) for subject, keep in texts])
    lengths, barred = needed.sum(1).tolist(), [out for _, keep in texts for out in (~keep[:, 0]).tolist()]
    order = sorted(range(len(needed)), key=lambda i: (lengths[i], barred[i]))
    blocks: list[Block] = []
    starts = [0] * len(needed)
    for i in order:
        last = blocks[-1] if blocks else Block(0, 0, 0, False)
        starts[i] = last.stop
        if (last.length, last.barred) == (lengths[i], barred[i]):
            blocks[-1] = Block(last.start, last.count + 1, last.length, last.barred)
        else:
            blocks.append(Block(last.stop, 1, lengths[i], barred[i]))
    row, position = needed[order].nonzero().unbind(1)
    text = torch.repeat_interleave(
        torch.arange(len(texts), device=needed.device),
        torch.tensor([len(keep) for _, keep in texts], device=needed.device),
    )[torch.tensor(order, device=needed.device)][row]
    index = position[None]  # (1, N)
    batch: dict[str, Tensor] = {}
    for number, (subject, _) in enumerate(texts):
        own = text == number
        part, placed = adapter.at_rows(subject.encoded, index[:, own])
        for key, value in part.items():
            batch.setdefault(key, value.new_empty(1, len(position)))[:, own] = value
    if len(texts) > 1:
        placed = adapter.positions.place(batch, index)
    first = torch.tensor(starts, device=needed.device)
    holds = index + longest * text[None]  # one number for each position of each text
    mode = FewerRowsMode(sites, holds, lambda rows: rows[0, first][:, None], partial(attend_within, blocks))
    with mode, placed:
        logits = adapter.logits(batch)
    return list(logits.split([len(keep) for _, keep in texts]))  # type: ignore[no-untyped-call]

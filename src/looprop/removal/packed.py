"""Many variants in one long row, without padding and without masks: attention stays within each variant."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from looprop.engine.sites import FusedCall, SiteMode, fused_call
from looprop.errors import ModelError
from looprop.models.subject import Subject
from looprop.removal.dropping import first_position, position_table, rows_needed
from looprop.removal.read_out import is_residual_sum


@dataclass(frozen=True)
class Block:
    """Neighbours of one length in the long row: rows start to start + count * length. barred: their first key is removed."""

    start: int
    count: int
    length: int
    barred: bool

    @property
    def stop(self) -> int:
        """The first row after them."""
        return self.start + self.count * self.length


class PackedMode(TorchFunctionMode):
    """Runs a model on a long row (1, N, D) of variants; after its last attention site only their first rows go on: (B, 1, D)."""

    def __init__(self, blocks: list[Block], first_rows: Tensor, sites: int) -> None:
        super().__init__()
        self.blocks, self.first_rows, self.left, self.cut = blocks, first_rows, sites, False

    def __torch_function__(self, function: Any, types_: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if getattr(function, "__name__", "") == "scaled_dot_product_attention":
            self.left -= 1
            return self._within(fused_call(self.left, args, kwargs or {}))
        out = function(*args, **(kwargs or {}))
        if self.left == 0 and not self.cut and is_residual_sum(function, args):
            self.cut = True
            return out[0, self.first_rows][:, None]
        return out

    def _within(self, call: FusedCall) -> Tensor:
        if call.mask is not None or call.causal or call.grouped or call.query.dim() != 4 or len(call.query) != 1:
            raise ModelError("attention that is more than queries, keys and values of one row cannot be packed")
        # (1, H, N, d) -> (N, H, d), which is how models store them
        query, key, value = (x[0].transpose(0, 1) for x in (call.query, call.key, call.value))
        out = query.new_empty(*query.shape[:2], value.shape[-1])
        for block in self.blocks:
            rows = slice(block.start, block.stop)
            shape = (block.count, block.length, query.shape[1], -1)
            q, k, v = (x[rows].reshape(shape).transpose(1, 2) for x in (query, key, value))  # (B, H, L, d)
            if block.barred:
                k, v = k[:, :, 1:], v[:, :, 1:]
            mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=call.scale)
            out[rows] = mixed.transpose(1, 2).flatten(0, 1)
        return out.transpose(0, 1)[None]


def packed_rows(subject: Subject, *, sites: int) -> Callable[[Tensor], Tensor]:
    """Run all variants on their needed rows in one long row. Kept positions (B, T) -> logits (B, 1, C)."""
    adapter, inputs = subject.adapter, subject.encoded.inputs
    offset, table = first_position(adapter), position_table(adapter)

    def run(keep: Tensor) -> Tensor:
        needed = rows_needed(subject, keep)
        lengths, barred = needed.sum(1).tolist(), (~keep[:, 0]).tolist()
        order = sorted(range(len(keep)), key=lambda i: (lengths[i], barred[i]))
        blocks: list[Block] = []
        starts = [0] * len(keep)
        for i in order:
            last = blocks[-1] if blocks else Block(0, 0, 0, False)
            starts[i] = last.stop
            if (last.length, last.barred) == (lengths[i], barred[i]):
                blocks[-1] = Block(last.start, last.count + 1, last.length, last.barred)
            else:
                blocks.append(Block(last.stop, 1, lengths[i], barred[i]))
        index = needed[order].nonzero()[:, 1][None]  # (1, N) positions
        batch = {name: value.gather(1, index) for name, value in inputs.items()}
        numbers: AbstractContextManager[object] = nullcontext()
        if "position_ids" in adapter.arguments:
            batch["position_ids"] = index + offset
        elif table is not None:
            numbers = SiteMode(positions=(table.weight, index + offset))
        with PackedMode(blocks, torch.tensor(starts, device=keep.device), sites), numbers:
            return adapter.forward(batch)

    return run

"""Value zeroing (Mohebbi et al. 2023): how much the output of a block changes at i when the value of j is zeroed.

C(l)_ij = 1 - cos(x_i, x_i without the value of j), rows to one;    scores: the read-out's row of C(L) ... C(1)
"""

import torch
from torch import Tensor

from looprop.errors import InputError
from looprop.intercept.blocks import BlockCall, ZeroedValues, blocks_of
from looprop.methods.parts.attention_layers import INSTEAD, AttentionMethod, rollout, rows_to_one
from looprop.models.subject import Subject

TOKENS = 4096  # positions of one internal batch


class ValueZeroing(AttentionMethod):
    """Context mixing of whole blocks, measured by running them without one value each, and rolled out. Cost T + 1."""

    name = "value-zeroing"
    title = "Value zeroing"
    summary = "change of each block's output when one token's value is zeroed, over the layers"
    cost = "T + 1"
    kind = "weight"

    def passes(self, subject: Subject) -> float:
        return subject.length + 1.0

    @torch.no_grad()
    def flow(self, subject: Subject) -> Tensor:
        adapter, encoded = subject.adapter, subject.encoded
        length = adapter.leading_positions(encoded) + len(encoded)
        with adapter.evaluating():
            with blocks_of(adapter.model) as blocks:
                logits = adapter.logits(encoded.inputs, positions=subject.target.positions)
            subject.check_route(float(subject.target.value(logits)[0]), "when it is run again")
            sites = adapter.attention_sites(encoded)
            if len(blocks) != sites or any(tuple(b.output.shape[:2]) != (1, length) for b in blocks):
                raise InputError(
                    f"value-zeroing needs modules that hold one attention site each and hand on the stream of "
                    f"positions, and {adapter.name} has {len(blocks)} such for {sites} sites: {INSTEAD}"
                )
            maps = [rows_to_one(changes(block, length)) for block in blocks]
        return rollout(maps, residual=False)


def changes(block: BlockCall, length: int) -> Tensor:
    """1 - cos of a block's output at i (rows) with and without the value of j (columns): (T, T)."""
    kept = 1.0 - torch.eye(length, dtype=block.output.dtype, device=block.output.device)
    found = []
    size = max(1, TOKENS // length)
    for part in (kept[first : first + size] for first in range(0, length, size)):
        with ZeroedValues(part):
            out = block.run(len(part))
        found.append(1.0 - torch.cosine_similarity(out, block.output, dim=-1))  # (variants, T)
    return torch.cat(found).T.clamp(min=0)

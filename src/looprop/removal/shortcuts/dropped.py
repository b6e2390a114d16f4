"""Removal by attention mask without computing what nobody reads.

A token whose key is barred for every row influences nothing, so its row is dropped instead of masked; the read-out row
stays. Before the first attention each position is computed once, after the last only the read-out. Causal models also
share what stands before the first removed token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from looprop.intercept.fewer_rows import FewerRowsMode
from looprop.intercept.sites import SiteMode
from looprop.models.positions import first_position, position_table, takes_positions, window
from looprop.models.subject import Subject
from looprop.removal.shortcuts.biases import SiteBias, biased_site

Dropper = Callable[[Tensor], Tensor]
"""Kept positions (B, T) -> logits (B, K, C), for rows of the batch in one go."""


def can_drop(subject: Subject) -> bool:
    """May rows be dropped at all? Positions must be given from outside, and every row must see every other."""
    adapter = subject.adapter
    if "input_ids" not in subject.encoded.inputs or "attention_mask" not in adapter.arguments:
        return False
    limit = window(adapter)
    return (limit is None or len(subject.encoded) <= limit) and takes_positions(adapter)


def rows_needed(subject: Subject, keep: Tensor) -> Tensor:
    """Rows that must be computed for each variant: the kept ones and the read-out, unless that is a mean over those
    kept. (B, T)
    """
    needed = keep.clone()
    if not subject.read_out.everything:
        needed[:, subject.read_rows] = True
    return needed


def fewer_rows(subject: Subject, sites: int, index: Tensor) -> AbstractContextManager[object]:
    """Leave out rows of the first and the last layer, of a model with so many attention sites that runs rows (B, R); 0
    leaves all.
    """
    read = subject.read_out
    if not sites or not (read.first or read.last):
        return nullcontext()
    rows = slice(0, read.first) if read.first else slice(-read.last, None)
    return FewerRowsMode(sites, index, lambda hidden: hidden[:, rows])


def dropped_rows(subject: Subject, *, sites: int = 0, biases: Sequence[SiteBias] | None = None) -> Dropper:
    """Run each variant on its needed rows only, padded to the longest of the batch.

    biases: what the written-out attention sites add to the scores of the whole input, where that depends on distances.
    """
    adapter, inputs = subject.adapter, subject.encoded.inputs
    offset, table = first_position(adapter), position_table(adapter)

    def run(keep: Tensor) -> Tensor:
        needed = rows_needed(subject, keep)
        index, present = gathered(needed, left=bool(subject.read_out.last))
        batch = {
            key: value.expand(len(keep), -1).gather(1, index)
            for key, value in inputs.items()
            if key != "attention_mask"
        }
        batch["attention_mask"] = (keep.gather(1, index) & present).to(batch["input_ids"])
        positions, looked_up = index + offset, None
        if "position_ids" in adapter.arguments:
            batch["position_ids"] = positions
        elif table is not None:
            looked_up = (table.weight, positions)
        written = None if biases is None else biased_site(biases, index, batch["attention_mask"].bool())
        altered = SiteMode(positions=looked_up, written=written) if looked_up or written else nullcontext()
        with fewer_rows(subject, sites, index), altered:
            return adapter.forward(batch, positions=subject.target.positions)

    return run


def gathered(needed: Tensor, *, left: bool) -> tuple[Tensor, Tensor]:
    """Indices of the needed rows of each variant, padded to one length, and which of them are real: (B, R), (B, R)."""
    counts = needed.sum(1)
    longest = int(counts.max())
    # A stable sort puts the needed rows first, in order of position.
    order = torch.argsort((~needed).to(torch.uint8), dim=1, stable=True)[:, :longest]
    present = torch.arange(longest, device=needed.device)[None] < counts[:, None]
    if left:
        shift = (torch.arange(longest, device=needed.device)[None] - (longest - counts)[:, None]) % longest
        order, present = order.gather(1, shift), present.gather(1, shift)
    return order.masked_fill(~present, 0), present

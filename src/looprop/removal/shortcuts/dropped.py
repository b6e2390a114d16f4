"""Removal by attention mask without computing what nobody reads.

A token whose key is barred for every row influences nothing, so its row is dropped instead of masked; rows that the
answer is read from stay. Before the first attention each position is computed once, after the last only those rows.
Causal models also share what stands before the first removed token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.nn.functional import pad

from looprop.intercept.attention import AttentionCall, SiteBias
from looprop.intercept.fewer_rows import FewerRowsMode
from looprop.intercept.sites import SiteMode
from looprop.models.subject import Subject
from looprop.removal.plain import Runner
from looprop.removal.shortcuts.biases import biased_site


def can_drop(subject: Subject) -> bool:
    """May rows be dropped at all? Positions must be given from outside, and every row must see every other."""
    adapter = subject.adapter
    if not (adapter.takes_mask and adapter.runs_rows):
        return False
    window = adapter.positions.window
    return window is None or subject.length <= window


def fewer_rows(
    subject: Subject, sites: int, index: Tensor, attend: Callable[[AttentionCall, bool], Tensor] | None = None
) -> AbstractContextManager[object]:
    """Leave out rows of the first and the last layer, of a model with so many attention sites that runs rows (B, R); 0
    leaves all. attend: answers fused sites in the model's place.
    """
    read = subject.answer_rows
    if not sites or not (read.first or read.last):
        return nullcontext()
    rows = slice(0, read.first) if read.first else slice(-read.last, None)
    return FewerRowsMode(sites, index, lambda hidden: hidden[:, rows], attend)


def dropped_rows(subject: Subject, *, sites: int = 0, biases: Sequence[SiteBias] | None = None) -> Runner:
    """Run each variant on its needed rows only, padded to the longest of the batch.

    biases: what the written-out attention sites add to the scores of the whole input, where that depends on distances.
    """
    adapter = subject.adapter

    def run(keep: Tensor) -> Tensor:
        count = len(keep)
        index, present = gathered(subject.rows_needed(keep), left=bool(subject.answer_rows.last))
        if sites and 1 < count == index.shape[1]:
            # As many variants as rows: in a model with time first, one could be taken for the other.
            keep, index, present = (torch.cat([x, x[:1]]) for x in (keep, index, present))
        read = keep.gather(1, index) & present
        batch, placed = adapter.at_rows(subject.encoded, index, read=read)
        answered = nullcontext() if biases is None else SiteMode(written=biased_site(biases, index, read))
        with fewer_rows(subject, sites, index), answered, placed:
            return adapter.logits(batch, positions=subject.target.positions)[:count]

    return run


def dropped_texts(texts: Sequence[tuple[Subject, Tensor]], *, sites: int = 0) -> list[Tensor]:
    """The same for variants of several texts of one model and one place to read from, in one batch."""
    first = texts[0][0]
    adapter, left = first.adapter, bool(first.answer_rows.last)
    found = [gathered(subject.rows_needed(keep), left=left) for subject, keep in texts]
    longest, wide = max(index.shape[1] for index, _ in found), max(keep.shape[1] for _, keep in texts)
    parts: list[dict[str, Tensor]] = []
    indices, holds = [], []
    for number, ((subject, keep), (index, present)) in enumerate(zip(texts, found, strict=True)):
        missing = longest - index.shape[1]
        index, present = (pad(x, (missing, 0) if left else (0, missing)) for x in (index, present))
        parts.append(adapter.at_rows(subject.encoded, index, read=keep.gather(1, index) & present)[0])
        indices.append(index)
        holds.append(index + wide * number)  # one number for each position of each text
    count = sum(map(len, indices))
    if 1 < count == longest:
        # As many variants as rows: in a model with time first, one could be taken for the other.
        parts, indices, holds = ([*x, x[-1]] for x in (parts, indices, holds))
    batch = {key: torch.cat([part[key] for part in parts]) for key in parts[0]}
    placed = adapter.positions.place(batch, torch.cat(indices))
    with fewer_rows(first, sites, torch.cat(holds)), placed:
        logits = adapter.logits(batch, positions=first.target.positions)
    return list(logits[:count].split([len(keep) for _, keep in texts]))  # type: ignore[no-untyped-call]


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

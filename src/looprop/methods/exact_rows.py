"""Exact rows: for each variant a few rows are carried through the whole network, all others stay as they were."""

from collections.abc import Iterator

import torch
from torch import Tensor

from looprop.engine.rows import Kept, carrying
from looprop.models.image_classifier import ImageClassifier
from looprop.models.subject import Subject
from looprop.removal.dropping import can_drop, first_position, position_table, read_out_rows
from looprop.removal.packing import run_halving

# Scores (variants x heads x rows x positions) that one batch may hold.
SCORES = 16_000_000


def read_out(subject: Subject) -> list[int]:
    """The rows of the sequence from which the answer is read."""
    return [0] if isinstance(subject.adapter, ImageClassifier) else read_out_rows(subject)


def can_carry(subject: Subject, sites: list[Kept]) -> bool:
    """Can rows be run on their own? Attention must be fused, and positions must be given from outside."""
    if not sites or len({site.key.shape[1] for site in sites}) != 1:
        return False
    return isinstance(subject.adapter, ImageClassifier) or can_drop(subject)


def choose_rows(subject: Subject, size: Tensor, member: Tensor, rows: int) -> Tensor:
    """The rows of each variant: the read-out, then the rows outside the feature with the largest effect. (F, k), ascending.

    size: (T, F). Ties go to the lower position.
    """
    rank = size.T.clone().masked_fill_(member.to(size.device), -1.0)  # rows of the feature itself come last: nobody reads them
    rank[:, read_out(subject)] = torch.inf
    chosen = torch.argsort(rank, dim=1, descending=True, stable=True)[:, :rows]
    return chosen.sort(1).values


def exact_rows(subject: Subject, sites: list[Kept], rows: Tensor, member: Tensor) -> Tensor:
    """The target when feature i is removed and only rows[i] feel it: (F,) for rows (F, k) and member (F, T)."""
    parts = []
    with subject.adapter.evaluating(), torch.inference_mode():
        for batch in _batches(len(rows), sites[0], rows.shape[1]):
            parts.append(run_halving(batch, lambda part: _run(subject, sites, rows[part], member[part])))
    return torch.cat(parts)


def _batches(count: int, site: Kept, width: int) -> Iterator[list[int]]:
    heads, length = site.key.shape[:2]
    size = max(1, min(SCORES // max(1, heads * length * width), max(1, 4096 // width)))
    for start in range(0, count, size):
        yield list(range(start, min(count, start + size)))


def _run(subject: Subject, sites: list[Kept], rows: Tensor, barred: Tensor) -> Tensor:
    adapter, inputs = subject.adapter, subject.encoded.inputs
    if isinstance(adapter, ImageClassifier):
        batch = {key: value.expand(len(rows), *value.shape[1:]) for key, value in inputs.items()}
        wanted = rows[:, :, None]
        mode = carrying(sites, rows, barred, select=lambda x: x.gather(1, wanted.expand(-1, -1, x.shape[2])))
    else:
        batch = {key: value.expand(len(rows), -1).gather(1, rows) for key, value in inputs.items()}
        numbers, table = rows + first_position(adapter), position_table(adapter)
        given = "position_ids" in adapter.arguments
        if given:
            batch["position_ids"] = numbers
        mode = carrying(sites, rows, barred, positions=None if given or table is None else (table.weight, numbers))
    with mode:
        logits = adapter.forward(batch, positions=subject.target.positions)
    return subject.target.value(logits).double()

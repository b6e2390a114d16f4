"""Variants of several short texts in common batches.

A short text fills no batch. Where a quicker way is proven and it is not the text's turn to check it (`Checked`), its
variants run together with those of other texts of the same path, longest first; every eighth text runs by itself, with
all checks. What a text gets is what it gets by itself, to rounding: rows of one text never meet those of another.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from looprop.models.answer_rows import AnswerRows
from looprop.removal.set_function import SetFunction
from looprop.removal.shortcuts.choose import Shortcut

Waiting = tuple[SetFunction, Tensor, Shortcut]
"""A set function, the variants (M, T) that it lacks, and the way that they would take."""


def compute_together(asked: Sequence[tuple[SetFunction, NDArray[np.bool_]]]) -> None:
    """Make rows of kept features (N, F) known to set functions of one model. What cannot run with others, or fails, is
    left to be computed when it is asked for.
    """
    groups: dict[tuple[str, int, AnswerRows, int, frozenset[str]], list[Waiting]] = {}
    for value, keep in asked:
        rows = value.missing(keep)
        way = value.runner.trusted(rows)
        if way is None:
            value(keep)
            continue
        subject = value.subject
        # Short texts may take another path than long ones: in one batch all would take that of its length.
        read, given = (subject.answer_rows, subject.target.positions), frozenset(subject.encoded.inputs)
        like = (way.name, subject.path, *read, given)
        groups.setdefault(like, []).append((value, rows, way))
    for group in groups.values():
        for batch in _batches(group):
            _run(batch)


def _batches(group: list[Waiting]) -> Iterator[list[Waiting]]:
    """Texts of like length, as many as fit."""
    budget = min(value.runner.batch_positions for value, _, _ in group)
    batch: list[Waiting] = []
    total = 0
    for waiting in sorted(group, key=lambda of: -of[1].shape[1]):
        size = int(waiting[2].lengths(waiting[1]).sum())
        if batch and total + size > budget:
            yield batch
            batch, total = [], 0
        batch.append(waiting)
        total += size
    if batch:
        yield batch


def _run(batch: list[Waiting]) -> None:
    """Compute a batch, and with it the shortest text as it is: its answer is known. Where that differs, or anything
    fails, nothing is taken over.
    """
    together, adapter = batch[0][2].together, batch[0][0].subject.adapter
    if (lost := adapter.facts.lost.get(batch[0][2].name)) is not None:  # by a text that was asked in the meantime
        for value, _, way in batch:
            value.runner.lose(way, lost)
        return
    if together is None or len(batch) == 1:
        return
    shortest = batch[-1][0].subject
    device = next(iter(shortest.encoded.inputs.values())).device
    asked = [(value, rows) for value, rows, _ in batch]
    asked[-1] = (asked[-1][0], torch.cat([torch.ones_like(asked[-1][1][:1]), asked[-1][1]]))
    try:
        with adapter.evaluating(), torch.inference_mode():
            logits = together([(value.subject, rows.to(device)) for value, rows in asked])
            parts = [value.runner.read(own, rows) for (value, rows), own in zip(asked, logits, strict=True)]
    except Exception:  # each is then computed by itself, where whatever it is will be named
        return
    intact, parts[-1] = parts[-1][:1], parts[-1][1:]
    if shortest.differs(float(shortest.target.total(intact)[0])):
        return
    for (value, rows, _), own in zip(batch, parts, strict=True):
        value.take(rows, own)

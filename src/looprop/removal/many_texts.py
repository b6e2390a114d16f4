"""Variants of several short texts in common batches.

A short text fills no batch. Where a shortcut is proven, variants run together with those of other texts of the same
path, longest first; every eighth text is checked as it would be by itself. What a text gets is what it gets by itself,
to rounding: rows of one text never meet those of another.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from looprop.models.answer_rows import AnswerRows
from looprop.removal.controls import check_shortcut
from looprop.removal.shortcuts.choose import Shortcut
from looprop.removal.trust import FEW_VARIANTS, Disagreement, drop, is_dropped
from looprop.removal.value import FEWEST, SetFunction

Waiting = tuple[SetFunction, Tensor, Shortcut]
"""A set function, the variants (M, T) that it lacks, and the way that they would take."""


def compute_together(asked: Sequence[tuple[SetFunction, NDArray[np.bool_]]]) -> None:
    """Make rows of kept features (N, F) known to set functions of one model. What cannot run with others, or fails, is
    left to be computed when it is asked for.
    """
    groups: dict[tuple[str, int, AnswerRows, int, frozenset[str]], list[Waiting]] = {}
    for value, keep in asked:
        rows = value.missing(keep)
        way = _way_together(value, rows)
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


def _way_together(value: SetFunction, rows: Tensor) -> Shortcut | None:
    """The shortcut by which variants (M, T) can run with those of other texts; None where they run by themselves."""
    if value.precision != "float32" or not FEWEST <= len(rows) < FEW_VARIANTS:
        return None
    shortcut, adapter = value.shortcut, value.subject.adapter
    alone = shortcut is None or shortcut.together is None or not adapter.takes_batches
    if alone or adapter.explained_weight is None or (shortcut is not None and shortcut.padded and not adapter.pads):
        return None
    return shortcut


def _batches(group: list[Waiting]) -> Iterator[list[Waiting]]:
    """Texts of like length, as many as fit."""
    budget = min(value.variants.batch_positions for value, _, _ in group)
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
    fails, nothing is taken over: each text is then computed by itself, where whatever it is will be named.
    """
    (first, _, way), adapter = batch[0], batch[0][0].subject.adapter
    if way.together is None or len(batch) == 1 or is_dropped(adapter, way.name) is not None:
        return
    shortest = batch[-1][0].subject
    asked = [(value, rows) for value, rows, _ in batch]
    asked[-1] = (asked[-1][0], torch.cat([torch.ones_like(asked[-1][1][:1]), asked[-1][1]]))
    try:
        with adapter.evaluating(), torch.inference_mode():
            logits = way.together([(value.subject, rows.to(first.variants.device)) for value, rows in asked])
            parts = [value.variants.read(own, rows) for (value, rows), own in zip(asked, logits, strict=True)]
            intact, parts[-1] = parts[-1][:1], parts[-1][1:]
            if shortest.differs(float(shortest.target.total(intact)[0])):
                return
            for (value, rows, own_way), own in zip(batch, parts, strict=True):
                value.checked += check_shortcut(value.variants, own_way, rows, own)
    except Disagreement as found:
        drop(shortest, way.name, str(found))
        return
    except Exception:  # whatever it is, a text by itself meets it again
        return
    for (value, rows, _), own in zip(batch, parts, strict=True):
        value.take(rows, own)

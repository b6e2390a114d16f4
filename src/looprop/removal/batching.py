"""Splitting work into batches that fit."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from looprop.models.checking import no_memory, out_of_memory

# A batch of this share of the budget fills the matrix products; from there on, shorter work waits for the next batch.
FULL = 1 / 4
# How much shorter, as a share of the longest of the batch: less padding is worth more than one batch less.
SHORTER = 15 / 16


def pack(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Indices in batches of at most `budget` positions, padding included; longest first, so that neighbours are of like
    length.

    >>> list(pack([3, 5, 1, 4], budget=8))
    [[1], [3], [0], [2]]
    >>> list(pack([1, 2, 1, 2], budget=16))
    [[1, 3], [0, 2]]
    """
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    batch: list[int] = []
    for i in order:
        if batch:
            longest = lengths[batch[0]]
            full = len(batch) * longest >= FULL * budget and lengths[i] < SHORTER * longest
            if full or (len(batch) + 1) * longest > budget:
                yield batch
                batch = []
        batch.append(i)
    if batch:
        yield batch


def fill(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """The same without padding: batches whose lengths add up to at most `budget`; longest first.

    >>> list(fill([3, 5, 1, 4], budget=8))
    [[1], [3, 0, 2]]
    """
    batch: list[int] = []
    total = 0
    for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if batch and total + lengths[i] > budget:
            yield batch
            batch, total = [], 0
        batch.append(i)
        total += lengths[i]
    if batch:
        yield batch


def run_halving(
    batch: list[int], run: Callable[[list[int]], Tensor], halved: Callable[[int], None] = lambda rows: None
) -> Tensor:
    """Run a batch; when memory runs out, run its halves, down to single rows. Never a wrong or missing row.

    halved: is told how many rows are tried next.
    """
    try:
        return run(batch)
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        if len(batch) == 1:
            raise no_memory() from error
    middle = len(batch) // 2
    halved(middle)
    return torch.cat([run_halving(batch[:middle], run, halved), run_halving(batch[middle:], run, halved)])

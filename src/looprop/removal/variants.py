"""Running many variants of one input, in batches that fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from looprop.errors import LoopropError, ModelError
from looprop.intercept.program import paths
from looprop.models.adapter import Removal
from looprop.models.checking import no_memory, out_of_memory
from looprop.models.subject import Subject
from looprop.removal.plain import Runner, plain_runner
from looprop.removal.trust import (
    Disagreement,
    batch_limit,
    drop_batches,
    is_new_length,
    limit_batches,
    same_path_when_packed,
    same_path_when_shorter,
)

if TYPE_CHECKING:
    from looprop.removal.shortcuts.choose import Shortcut

# Positions per batch: enough to fill the matrix products; on a CPU few enough for its caches.
ON_CPU, ELSEWHERE = 1024, 16_384
# A batch of this share of the budget fills the matrix products; from there on, shorter work waits for the next batch.
FULL = 1 / 4
# How much shorter, as a share of the longest of the batch: less padding is worth more than one batch less.
SHORTER = 15 / 16


class Variants:
    """Kept positions (M, T) of one input -> the parts (M, P) of the target's values.

    rough: run in bfloat16. batch_positions: how many positions one batch may hold; None takes what suits the device.
    """

    def __init__(self, subject: Subject, removal: Removal, *, rough: bool, batch_positions: int | None) -> None:
        self.subject, self.removal, self.rough = subject, removal, rough
        self.device = next(iter(subject.encoded.inputs.values())).device
        usual = ON_CPU if self.device.type == "cpu" else ELSEWHERE
        self.batch_positions = batch_positions or min(usual, batch_limit(subject.adapter) or usual)
        self.length = subject.adapter.batch_positions(subject.encoded)
        self.plain: Runner = plain_runner(subject, removal)

    def run_plainly(self, rows: Tensor) -> Tensor:
        """By plain removal; one by one where a model does not take a batch of variants."""
        adapter = self.subject.adapter
        try:
            return self.run(None, rows)
        except LoopropError:
            raise
        except Exception as error:  # whatever a model raises for a batch, or for an input with something removed
            if not adapter.takes_batches or out_of_memory(error.__cause__ or error):
                raise self._named(error) from error
        drop_batches(adapter)
        try:
            return self.run(None, rows)
        except LoopropError:
            raise
        except Exception as error:
            raise self._named(error) from error

    def _named(self, error: Exception) -> Exception:
        """What a model raises where something is removed, as an error that names it."""
        if out_of_memory(error.__cause__ or error):
            return error
        name = self.subject.adapter.name
        return ModelError(f"{name} cannot be run with features removed, {type(error).__name__}: {error}")

    def run(self, shortcut: Shortcut | None, rows: Tensor) -> Tensor:
        """By a shortcut, or plainly (None), in batches that fit."""
        runner = self.plain if shortcut is None else shortcut.runner
        target = self.subject.target
        parts = torch.zeros(len(rows), len(target.index) if target.continuation else 1, dtype=torch.float64)
        lengths = torch.full((len(rows),), self.length) if shortcut is None else shortcut.lengths(rows)
        for batch in self._batches(shortcut, rows, lengths):
            each = min(rows.shape[1], self.batch_positions // len(batch))  # positions, at most
            with self._path_watched(shortcut, rows[batch], lengths[batch]):
                parts[batch] = run_halving(
                    batch,
                    lambda part: self._run_batch(runner, rows[part]),
                    lambda fewer, each=each: self._remember(each * fewer),  # type: ignore[misc]
                )
        return parts

    @contextmanager
    def _path_watched(self, shortcut: Shortcut | None, rows: Tensor, lengths: Tensor) -> Iterator[None]:
        """Raise `Disagreement` where the model calls other operations when rows are left out than on the whole input.
        Looked at once for every number of rows.
        """
        if shortcut is None or shortcut.columns:
            yield
            return
        other = Disagreement("the model calls other operations when rows are left out")
        if shortcut.padded:
            count, longest = int(lengths.max()), int(lengths.argmax())
            if is_new_length(self.subject, count):
                kept = self.subject.rows_needed(rows[longest : longest + 1])[0]
                if not same_path_when_shorter(self.subject, kept):
                    raise other
            yield
            return
        count = int(lengths.sum())
        if not is_new_length(self.subject, count, shortcut.name):
            yield
            return
        with paths() as noted:
            yield
        intact = torch.ones_like(rows[:1]).to(self.device)
        run = partial(shortcut.runner, intact)
        if not same_path_when_packed(self.subject, shortcut.name, count, noted, run):
            raise other

    def read(self, logits: Tensor, keep: Tensor) -> Tensor:
        """The parts (M, P) of the values of variants (M, T) from their logits, which must be numbers."""
        parts = self.subject.target.parts(logits.float() if self.rough else logits).double().cpu()
        if not torch.isfinite(parts).all():
            row = int((~torch.isfinite(parts)).nonzero()[0, 0])
            removed = [self.subject.encoded.names[i] for i in (~keep[row]).nonzero()[:, 0].tolist()]
            name = self.subject.adapter.name
            raise ModelError(f"{name} answers with NaN or infinite logits when {removed[:8]} is removed")
        return parts

    def _run_batch(self, runner: Callable[[Tensor], Tensor], keep: Tensor) -> Tensor:
        with self._cast():
            logits = runner(keep.to(self.device))
        if len(logits) != len(keep):
            name = self.subject.adapter.name
            raise ModelError(f"{name} answers a batch of {len(keep)} inputs with {len(logits)} rows of logits")
        return self.read(logits, keep)

    def _cast(self) -> AbstractContextManager[object]:
        return torch.autocast(self.device.type, torch.bfloat16) if self.rough else nullcontext()

    def _remember(self, positions: int) -> None:
        """Memory ran out: from now on batches of this model hold no more than what is tried next."""
        self.batch_positions = max(1, min(self.batch_positions, positions))
        limit_batches(self.subject.adapter, self.batch_positions)

    def _batches(self, shortcut: Shortcut | None, rows: Tensor, lengths: Tensor) -> list[list[int]]:
        """Which variants are run together, by how many positions each takes (M,)."""
        if shortcut is None and self.removal == "delete":
            kept = [int(n) for n in rows.sum(1)]
            # What is cut out leaves different lengths: never one batch, since padding may reach a model's answer.
            return self._packed(kept, kept)
        if shortcut is not None and not shortcut.padded:
            return list(fill(lengths.tolist(), self.batch_positions))
        if shortcut is not None and shortcut.columns:
            # Few rows of its own, but its attention reads the whole sequence.
            lengths = lengths.clamp(min=rows.shape[1] // 8)
        return self._packed(lengths.tolist(), [0] * len(rows))

    def _packed(self, lengths: list[int], apart: list[int]) -> list[list[int]]:
        """Batches of one value of `apart` each."""
        batches = []
        for value in dict.fromkeys(apart):
            own = [i for i, of in enumerate(apart) if of == value]
            batches += [[own[b] for b in batch] for batch in pack([lengths[i] for i in own], self.batch_positions)]
        return batches


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

"""Runs variants of one input by the quickest way that holds, and looks after itself while it does.

With every run the intact input runs along: its answer is known. Of every run by a quicker way some variants (sentinels)
are also computed plainly and alone. Where anything disagrees or fails, all is computed plainly, the model loses the way
and the reason is kept. `docs/what-is-checked.md` says when, and how far apart numbers may be.
"""

from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from looprop.errors import LoopropError, ModelError
from looprop.models.adapter import Removal
from looprop.models.agreement import rounding
from looprop.models.checking import out_of_memory
from looprop.models.subject import Subject
from looprop.removal.batching import fill, pack, run_halving
from looprop.removal.plain import plain_runner
from looprop.removal.sentinels import EVERY, FEW_VARIANTS, allowed_error, sentinels
from looprop.removal.shortcuts.choose import Shortcut, choose_shortcut

# Positions per batch: enough to fill the matrix products; on a CPU few enough for its caches.
ON_CPU, ELSEWHERE = 1024, 16_384
# Runs of fewer variants than this are not worth a quicker way and its checks.
FEWEST = 3


class Checked:
    """Kept positions (N, T) -> the parts of the target's values (N, P), by a quicker way or plainly.

    checked: how many variants were also computed in another way. fell_back: why the quicker way was given up, if it
    was.
    """

    def __init__(
        self, subject: Subject, removal: Removal, *, rough: bool, quick: bool, batch_positions: int | None
    ) -> None:
        self.subject, self.removal, self.rough = subject, removal, rough
        self.quick = quick and removal == "attention-mask"
        self._device = next(iter(subject.encoded.inputs.values())).device
        usual = ON_CPU if self._device.type == "cpu" else ELSEWHERE
        self.batch_positions = batch_positions or min(usual, subject.adapter.facts.batch_positions or usual)
        self._plain = plain_runner(subject, removal)
        self.checked = 0
        self.fell_back: str | None = None

    @cached_property
    def _proven(self) -> Shortcut | None:
        return choose_shortcut(self.subject, self._plain) if self.quick else None

    @property
    def shortcut(self) -> Shortcut | None:
        """A way that computes less, if it was proven to agree with plain masking and never failed."""
        return None if self.fell_back is not None else self._proven

    def __call__(self, rows: Tensor) -> tuple[Tensor, bool]:
        """The parts (M, P) of the values of variants (M, T), none whole, and whether a quicker way was taken."""
        shortcut = self.shortcut if len(rows) >= FEWEST else None
        if shortcut is not None:
            try:
                return self._by(shortcut, rows), True
            except _Disagreement as found:
                reason = str(found)
            except Exception as error:  # whatever a model says to being run in a way that it was not made for
                if out_of_memory(error.__cause__ or error):
                    raise
                reason = f"{type(error).__name__}: {error}"
            self.lose(shortcut, reason)
        return self._plainly(rows), False

    def trusted(self, rows: Tensor) -> Shortcut | None:
        """The way by which variants (M, T) would run unchecked, if that is so and they can run together with those of
        other texts. It then counts as taken.
        """
        if self.rough or not FEWEST <= len(rows) < FEW_VARIANTS:
            return None
        shortcut, adapter = self.shortcut, self.subject.adapter
        if (
            shortcut is None
            or shortcut.together is None
            or not adapter.takes_batches
            or adapter.explained_weight is None
        ):
            return None
        if shortcut.padded and not adapter.pads:
            return None
        kind = (shortcut.name, self.subject.path)
        before = adapter.facts.runs.get(kind, 0)
        if before % EVERY == 0:
            return None
        adapter.facts.runs[kind] = before + 1
        return shortcut

    def read(self, logits: Tensor, keep: Tensor) -> Tensor:
        """The parts (M, P) of the values of variants (M, T), from logits that were computed with others'."""
        return self._parts(lambda _: logits, keep)

    def lose(self, shortcut: Shortcut, reason: str) -> None:
        """Run plainly from now on, and say why; so does every input of the model that comes after."""
        facts, known = self.subject.adapter.facts, self.subject.cache
        self.fell_back = f"{shortcut.name}: {reason}"
        facts.lost[shortcut.name] = reason
        # Where the answer is read from may have been what was wrong.
        facts.moves, known.answer_rows = True, None
        facts.answer_rows.clear()

    def _by(self, shortcut: Shortcut, rows: Tensor) -> Tensor:
        if self.rough:  # is not checked, and takes no other run's turn
            return self._run(shortcut, rows)
        subject = self.subject
        runs, kind = subject.adapter.facts.runs, (shortcut.name, subject.path)
        before = runs.get(kind, 0)
        runs[kind] = before + 1
        if len(rows) < FEW_VARIANTS and before % EVERY:
            return self._run(shortcut, rows)
        parts = self._run(shortcut, self._with_intact(rows))
        values = self._totals(parts)
        own, values, parts = float(values[0]), values[1:], parts[1:]
        change = float((values - subject.output).abs().max())
        allowed = allowed_error(subject.size, change, subject.dtype)
        if not abs(own - subject.output) <= allowed:
            raise _Disagreement(f"the intact input gives {own:.6g}, the model itself {subject.output:.6g}")
        chosen = sentinels(rows, new=before == 0)
        for i in chosen:
            wanted = float(self._totals(self._run(None, rows[i : i + 1]))[0])
            if not abs(float(values[i]) - wanted) <= allowed:
                raise _Disagreement(f"a variant gives {float(values[i]):.6g}, plain masking {wanted:.6g}")
        self.checked += 1 + len(chosen)
        return parts

    def _plainly(self, rows: Tensor) -> Tensor:
        """By plain removal; one by one where a model does not take a batch of variants."""
        adapter = self.subject.adapter
        try:
            return self._by_plain_removal(rows)
        except LoopropError:
            raise
        except Exception as error:  # whatever a model says to a batch, or to an input with something removed
            if not adapter.takes_batches or out_of_memory(error.__cause__ or error):
                raise self._named(error) from error
        adapter.facts.one_by_one = True
        try:
            return self._by_plain_removal(rows)
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

    def _by_plain_removal(self, rows: Tensor) -> Tensor:
        """One by one where the rows of a batch depend on each other."""
        if self.rough:
            return self._run(None, rows)
        subject, facts = self.subject, self.subject.adapter.facts
        kind = (f"plain {self.removal} {len(rows)}", subject.path)
        before = facts.runs.get(kind, 0)
        if len(rows) < FEW_VARIANTS and before % EVERY:
            parts = self._run(None, rows)
        else:
            parts = self._run(None, self._with_intact(rows))
            if subject.adapter.takes_batches and self._depends_on_batch(rows, self._totals(parts)):
                facts.one_by_one = True
                parts = self._run(None, self._with_intact(rows))
            own = float(self._totals(parts[:1])[0])
            subject.check_route(own, f"with nothing removed (removal={self.removal!r})")
            parts = parts[1:]
            self.checked += 1
        facts.runs[kind] = before + 1  # a run that was refused does not count
        return parts

    def _totals(self, parts: Tensor) -> Tensor:
        return self.subject.target.total(parts)

    def _depends_on_batch(self, rows: Tensor, values: Tensor) -> bool:
        """Does an input answer in a batch otherwise than alone? values: of the intact input and of rows."""
        if self.removal != "delete":
            return self.subject.differs(float(values[0]))
        # The intact input is longer than all others, and runs alone: one of the others is run once more.
        (chosen,) = sentinels(rows, new=False)
        alone = float(self._totals(self._run(None, rows[chosen : chosen + 1]))[0])
        size = max(self.subject.size, abs(alone))
        return abs(alone - float(values[1 + chosen])) > rounding(size, self.subject.dtype)

    def _with_intact(self, rows: Tensor) -> Tensor:
        return torch.cat([torch.ones_like(rows[:1]), rows])  # first, so that it never runs alone

    def _run(self, shortcut: Shortcut | None, rows: Tensor) -> Tensor:
        """The parts (M, P) of the values of variants (M, T), in batches that fit."""
        target = self.subject.target
        parts = torch.zeros(len(rows), len(target.index) if target.continuation else 1, dtype=torch.float64)
        for batch in self._batches(shortcut, rows):
            each = min(rows.shape[1], self.batch_positions // len(batch))  # positions, at most
            parts[batch] = run_halving(
                batch,
                lambda part: self._parts(self._plain if shortcut is None else shortcut.runner, rows[part]),
                lambda fewer, each=each: self._remember(each * fewer),  # type: ignore[misc]
            )
        return parts

    def _remember(self, positions: int) -> None:
        """Memory ran out: from now on batches of this model hold no more than what is tried next."""
        fewer = max(1, min(self.batch_positions, positions))
        self.batch_positions = self.subject.adapter.facts.batch_positions = fewer

    def _batches(self, shortcut: Shortcut | None, rows: Tensor) -> list[list[int]]:
        """Which variants are run together, by how many positions each takes."""
        if shortcut is None:
            lengths = self._plain_lengths(rows)
            # What is cut out leaves different lengths: never one batch, since padding may reach a model's answer.
            return self._packed(lengths, lengths if self.removal == "delete" else [0] * len(lengths))
        lengths = shortcut.lengths(rows).tolist()
        if not shortcut.padded:
            return list(fill(lengths, self.batch_positions))
        if shortcut.columns:
            # Few rows of its own, but its attention reads the whole sequence.
            lengths = [max(length, rows.shape[1] // 8) for length in lengths]
        return self._packed(lengths, [0] * len(lengths))

    def _packed(self, lengths: list[int], apart: list[int]) -> list[list[int]]:
        """Batches of one value of `apart` each."""
        batches = []
        for value in dict.fromkeys(apart):
            own = [i for i, of in enumerate(apart) if of == value]
            batches += [[own[b] for b in batch] for batch in pack([lengths[i] for i in own], self.batch_positions)]
        return batches

    def _plain_lengths(self, rows: Tensor) -> list[int]:
        if self.removal == "delete":
            return [int(n) for n in rows.sum(1)]
        return [self.subject.adapter.batch_positions(self.subject.encoded)] * len(rows)

    def _parts(self, runner: Any, keep: Tensor) -> Tensor:
        with self._cast():
            logits = runner(keep.to(self._device))
        name = self.subject.adapter.name
        if len(logits) != len(keep):
            raise ModelError(f"{name} answers a batch of {len(keep)} inputs with {len(logits)} rows of logits")
        parts = self.subject.target.parts(logits.float() if self.rough else logits).double().cpu()
        if not torch.isfinite(parts).all():
            row = int((~torch.isfinite(parts)).nonzero()[0, 0])
            removed = [self.subject.encoded.names[i] for i in (~keep[row]).nonzero()[:, 0].tolist()]
            raise ModelError(f"{name} answers with NaN or infinite logits when {removed[:8]} is removed")
        return parts

    def _cast(self) -> AbstractContextManager[object]:
        return torch.autocast(self._device.type, torch.bfloat16) if self.rough else nullcontext()


class _Disagreement(Exception):
    """A quicker way and plain masking do not agree."""

"""The set function: f(kept features) -> the target's value, exact, batched, and computed once per subset."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from looprop.errors import InputError, ModelError, UnknownNameError
from looprop.models.adapter import Removal
from looprop.models.subject import Subject, Values
from looprop.removal.batching import fill, pack, run_halving
from looprop.removal.plain import plain_runner
from looprop.removal.shortcuts.choose import Shortcut, choose_shortcut

Precision = Literal["float32", "bfloat16"]

# Positions per batch: enough to fill the matrix products; on a CPU few enough for its caches.
ON_CPU, ELSEWHERE = 1024, 16_384


class SetFunction:
    """Answers every question of what is left when features are removed.

    removal: how; None takes the default of the kind of input. precision: "bfloat16" is quicker on some machines and
    less exact. quick: leave out rows that nobody reads, where that is proven to agree with plain masking.
    budget: how many positions one batch may hold; None takes what suits the device.
    """

    def __init__(
        self,
        subject: Subject,
        *,
        removal: Removal | None = None,
        precision: Precision = "float32",
        quick: bool = True,
        batch_positions: int | None = None,
    ) -> None:
        adapter = subject.adapter
        self.removal: Removal = removal or adapter.removals[0]
        if self.removal not in get_args(Removal):
            raise UnknownNameError("removal", str(self.removal), get_args(Removal))
        if precision not in get_args(Precision):
            raise UnknownNameError("precision", str(precision), get_args(Precision))
        if batch_positions is not None and (type(batch_positions) is not int or batch_positions < 1):
            raise InputError(f"batch_positions must be an integer >= 1, got {batch_positions!r}")
        if not subject.features:
            raise InputError("the input has no features")
        self.subject, self.precision, self.quick = subject, precision, quick
        self.count = subject.known.values.setdefault((self.removal, precision), Values())
        self._known = self.count.by_subset
        self._device = next(iter(subject.encoded.inputs.values())).device
        usual = ON_CPU if self._device.type == "cpu" else ELSEWHERE
        self.batch_positions = batch_positions or min(usual, adapter.facts.batch_positions or usual)
        self._plain = plain_runner(subject, self.removal)
        member = torch.zeros(len(subject.features), len(subject.encoded), dtype=torch.bool)
        for feature, positions in enumerate(subject.features):
            member[feature, list(positions)] = True
        self._member = member  # (F, T)

    def __call__(self, keep: NDArray[np.bool_] | Tensor | Sequence[Sequence[bool]]) -> NDArray[np.float64]:
        """The target's value for every row of a boolean matrix of kept features. (N, F) -> (N,)"""
        tokens = self._tokens(keep)
        keys = _keys(tokens)
        self.count.asked += len(keys)
        missing: dict[bytes, int] = {}
        for i, key in enumerate(keys):
            if key not in self._known and key not in missing:
                missing[key] = i
        if missing:
            self._compute(tokens, missing)
        return np.array([self._known[key] for key in keys])

    @property
    def way(self) -> str:
        """How variants are run: by plain masking, or by a shortcut that was proven to agree with it."""
        return "plain" if self._shortcut is None else self._shortcut.name

    def learn(self, keep: NDArray[np.bool_], values: NDArray[np.float64]) -> None:
        """Take over values that were computed elsewhere: rows of kept features (N, F), and the target's value for each
        (N,).
        """
        self._known.update(zip(_keys(self._tokens(keep)), values.tolist(), strict=True))

    def _tokens(self, keep: Any) -> Tensor:
        """Kept positions from kept features: (N, F) -> (N, T)."""
        matrix = keep.cpu() if isinstance(keep, Tensor) else torch.as_tensor(np.asarray(keep))
        if matrix.dtype != torch.bool:
            raise InputError(f"the matrix of kept features must be boolean, got {matrix.dtype}")
        if matrix.dim() != 2 or matrix.shape[1] != len(self._member):
            raise InputError(
                f"the matrix of kept features must have shape (N, {len(self._member)}), got {tuple(matrix.shape)}"
            )
        if self.removal != "zero" and len(matrix) and not matrix.any(1).all():
            row = int((~matrix.any(1)).nonzero()[0])
            raise InputError(
                f"row {row} keeps no feature: what a Transformer answers without any key depends on how it is written"
            )
        return ~((~matrix).float() @ self._member.float()).bool()

    def _compute(self, tokens: Tensor, missing: dict[bytes, int]) -> None:
        keys, rows = list(missing), tokens[list(missing.values())]  # (M, T)
        whole = rows.all(1)
        if self.precision == "float32":
            for i in whole.nonzero()[:, 0].tolist():
                self._known[keys[i]] = self.subject.output
        else:
            whole = torch.zeros_like(whole)
        todo = (~whole).nonzero()[:, 0].tolist()
        if not todo:
            return
        batches = self._batches(rows[todo])
        with self.subject.adapter.evaluating(), torch.inference_mode(), self._cast():
            for batch in batches:
                chosen = [todo[b] for b in batch]
                each = min(rows.shape[1], self.batch_positions // len(chosen))  # positions, at most
                values = run_halving(
                    chosen,
                    lambda part: self._values(rows[part]),
                    lambda fewer, each=each: self._remember(each * fewer),  # type: ignore[misc]
                )
                self.count.computed += len(chosen)
                for i, value in zip(chosen, values.tolist(), strict=True):
                    self._known[keys[i]] = value

    def _remember(self, positions: int) -> None:
        """Memory ran out: from now on batches of this model hold no more than what is tried next."""
        fewer = max(1, min(self.batch_positions, positions))
        self.batch_positions = self.subject.adapter.facts.batch_positions = fewer

    def _batches(self, rows: Tensor) -> list[list[int]]:
        """Which variants are run together, by how many positions each takes."""
        shortcut = self._shortcut
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

    @cached_property
    def _shortcut(self) -> Shortcut | None:
        """A way that computes less, if it was proven on this model to agree with plain masking."""
        wanted = self.quick and self.removal == "attention-mask"
        return choose_shortcut(self.subject, self._plain) if wanted else None

    def _values(self, keep: Tensor) -> Tensor:
        runner = self._plain if self._shortcut is None else self._shortcut.runner
        logits = runner(keep.to(self._device))
        if len(logits) != len(keep):
            raise ModelError(
                f"{self.subject.adapter.name} answers a batch of {len(keep)} inputs with {len(logits)} rows of logits"
            )
        values = self.subject.target.value(logits.float() if self.precision == "bfloat16" else logits).double().cpu()
        if not torch.isfinite(values).all():
            row = int((~torch.isfinite(values)).nonzero()[0])
            removed = [self.subject.encoded.names[i] for i in (~keep[row]).nonzero()[:, 0].tolist()]
            raise ModelError(
                f"{self.subject.adapter.name} answers with NaN or infinite logits when {removed[:8]} is removed"
            )
        return values

    def _cast(self) -> Any:
        return torch.autocast(self._device.type, torch.bfloat16) if self.precision == "bfloat16" else nullcontext()


def _keys(tokens: Tensor) -> list[bytes]:
    """What subsets are known by: their kept positions (N, T), packed."""
    return [row.tobytes() for row in np.packbits(tokens.numpy(), axis=1)]

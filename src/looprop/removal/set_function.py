"""The set function: f(kept features) -> the target's value, exact, batched, and computed once per subset."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from looprop.errors import InputError, ModelError, UnknownNameError
from looprop.models.subject import Subject
from looprop.removal import plain
from looprop.removal.batching import fill, pack, run_halving
from looprop.removal.shortcuts.choose import AGREEMENT as AGREEMENT
from looprop.removal.shortcuts.choose import Quick, quick_way

Removal = Literal["attention-mask", "zero", "mask-token", "pad-token", "delete"]
Precision = Literal["float32", "bfloat16"]

# Positions per batch: enough to fill the matrix products; on a CPU few enough for its caches.
BUDGET = {"cpu": 1024}
BUDGET_ELSEWHERE = 16_384
# Elements of a plain tensor that count as one position.
ELEMENTS = 256


@dataclass
class Count:
    """How many subsets were asked for and how many had to be computed."""

    asked: int = 0
    computed: int = 0

    @property
    def saved(self) -> int:
        """Subsets that were known already."""
        return self.asked - self.computed


def default_removal(subject: Subject) -> Removal:
    """Attention mask for texts, zero for tensors and images without tokens."""
    return "attention-mask" if "input_ids" in subject.encoded.inputs else "zero"


class SetFunction:
    """Answers every question of what is left when features are removed.

    removal: how; None takes the default of the kind of input. precision: "bfloat16" is quicker on some machines and
    less exact. quick: leave out rows that nobody reads, where that is proven to agree with plain plain.
    budget: how many positions one batch may hold; None takes what suits the device.
    """

    def __init__(
        self,
        subject: Subject,
        *,
        removal: Removal | None = None,
        precision: Precision = "float32",
        quick: bool = True,
        budget: int | None = None,
    ) -> None:
        self.removal: Removal = removal or default_removal(subject)
        if self.removal not in get_args(Removal):
            raise UnknownNameError("removal", str(self.removal), get_args(Removal))
        if precision not in get_args(Precision):
            raise UnknownNameError("precision", str(precision), get_args(Precision))
        if budget is not None and (not isinstance(budget, int) or isinstance(budget, bool) or budget < 1):
            raise InputError(f"budget must be an integer >= 1, got {budget!r}")
        if not subject.features:
            raise InputError("the input has no features")
        self.subject, self.precision, self.quick = subject, precision, quick
        self._known: dict[bytes, float] = subject.memo.setdefault(("values", self.removal, precision), {})
        self.count: Count = subject.memo.setdefault(("count", self.removal, precision), Count())
        self._device = next(iter(subject.encoded.inputs.values())).device
        usual = BUDGET.get(self._device.type, BUDGET_ELSEWHERE)
        self.budget = budget or min(usual, subject.adapter.budget or usual)
        self._runner = self._plain()
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
                each = min(rows.shape[1], self.budget // len(chosen))  # positions, at most
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
        self.budget = self.subject.adapter.budget = max(1, min(self.budget, positions))

    def _batches(self, rows: Tensor) -> list[list[int]]:
        """Which variants are run together, by how many positions each takes."""
        quick = self._quick
        if quick is None:
            lengths = self._plain_lengths(rows)
            # What is cut out leaves different lengths: never one batch, since padding may reach a model's answer.
            return self._packed(lengths, lengths if self.removal == "delete" else [0] * len(lengths))
        lengths = quick.lengths(rows).tolist()
        if not quick.padded:
            return list(fill(lengths, self.budget))
        if quick.columns:
            # Few rows of its own, but its attention reads the whole sequence.
            lengths = [max(length, rows.shape[1] // 8) for length in lengths]
        return self._packed(lengths, [0] * len(lengths))

    def _packed(self, lengths: list[int], apart: list[int]) -> list[list[int]]:
        """Batches of one value of `apart` each."""
        batches = []
        for value in dict.fromkeys(apart):
            own = [i for i, of in enumerate(apart) if of == value]
            batches += [[own[b] for b in batch] for batch in pack([lengths[i] for i in own], self.budget)]
        return batches

    def _plain_lengths(self, rows: Tensor) -> list[int]:
        if self.removal == "delete":
            return [int(n) for n in rows.sum(1)]
        plain_tensor = self.removal == "zero" and "pixel_values" not in self.subject.encoded.inputs
        return [max(1, rows.shape[1] // ELEMENTS) if plain_tensor else rows.shape[1]] * len(rows)

    @cached_property
    def _quick(self) -> Quick | None:
        """A way that computes less, if it was proven on this model to agree with plain plain."""
        return quick_way(self.subject, self._runner) if self.quick and self.removal == "attention-mask" else None

    def _values(self, keep: Tensor) -> Tensor:
        runner = self._runner if self._quick is None else self._quick.runner
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

    def _plain(self) -> plain.Runner:
        subject, kind = self.subject, self.removal
        lengths = (lambda keep: keep.sum(1)) if kind == "delete" else None
        return plain.without_padding(plain.runner(subject, kind), subject.adapter, lengths)


def _keys(tokens: Tensor) -> list[bytes]:
    """What subsets are known by: their kept positions (N, T), packed."""
    return [row.tobytes() for row in np.packbits(tokens.numpy(), axis=1)]

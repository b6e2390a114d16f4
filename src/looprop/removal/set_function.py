"""The set function: f(kept features) -> the target's value, exact, batched, and computed once per subset."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from looprop.errors import InputError, ModelError, UnknownNameError
from looprop.models.subject import Subject
from looprop.removal import dropping, masking
from looprop.removal.packing import pack, run_halving

Removal = Literal["attention-mask", "zero", "mask-token", "pad-token", "delete"]
Precision = Literal["float32", "bfloat16"]

# Positions per batch: large enough to fill the matrix products, small enough for the caches.
BUDGET = 2048
# A quicker way is taken only where it agrees with plain masking to this, relative to the size of the values.
AGREEMENT = 1e-4


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
    less exact. quick: leave out rows that nobody reads, where that is proven to agree with plain masking.
    """

    def __init__(
        self,
        subject: Subject,
        *,
        removal: Removal | None = None,
        precision: Precision = "float32",
        quick: bool = True,
        budget: int = BUDGET,
    ) -> None:
        self.removal: Removal = removal or default_removal(subject)
        if self.removal not in get_args(Removal):
            raise UnknownNameError("removal", str(self.removal), get_args(Removal))
        if precision not in get_args(Precision):
            raise UnknownNameError("precision", str(precision), get_args(Precision))
        if not isinstance(budget, int) or budget < 1:
            raise InputError(f"budget must be an integer >= 1, got {budget!r}")
        if not subject.features:
            raise InputError("the input has no features")
        self.subject, self.precision, self.quick, self.budget = subject, precision, quick, budget
        self._known: dict[bytes, float] = subject.memo.setdefault(("values", self.removal, precision), {})
        self.count: Count = subject.memo.setdefault(("count", self.removal, precision), Count())
        self._device = next(iter(subject.encoded.inputs.values())).device
        self._runner = self._plain()
        member = torch.zeros(len(subject.features), len(subject.encoded), dtype=torch.bool)
        for feature, positions in enumerate(subject.features):
            member[feature, list(positions)] = True
        self._member = member  # (F, T)

    def __call__(self, keep: NDArray[np.bool_] | Tensor | Sequence[Sequence[bool]]) -> NDArray[np.float64]:
        """The target's value for every row of a boolean matrix of kept features. (N, F) -> (N,)"""
        tokens = self._tokens(keep)
        keys = [row.tobytes() for row in np.packbits(tokens.numpy(), axis=1)]
        self.count.asked += len(keys)
        missing: dict[bytes, int] = {}
        for i, key in enumerate(keys):
            if key not in self._known and key not in missing:
                missing[key] = i
        if missing:
            self._compute(tokens, missing)
        return np.array([self._known[key] for key in keys])

    def _tokens(self, keep: Any) -> Tensor:
        """Kept positions from kept features: (N, F) -> (N, T)."""
        matrix = torch.as_tensor(np.asarray(keep) if not isinstance(keep, Tensor) else keep)
        if matrix.dtype != torch.bool:
            raise InputError(f"the matrix of kept features must be boolean, got {matrix.dtype}")
        if matrix.dim() != 2 or matrix.shape[1] != len(self._member):
            raise InputError(f"the matrix of kept features must have shape (N, {len(self._member)}), got {tuple(matrix.shape)}")
        if self.removal != "zero" and len(matrix) and not matrix.any(1).all():
            row = int((~matrix.any(1)).nonzero()[0])
            raise InputError(f"row {row} keeps no feature: what a Transformer answers without any key depends on how it is written")
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
        self.count.computed += len(todo)
        with self.subject.adapter.evaluating(), torch.inference_mode(), self._cast():
            groups = self._groups(rows, todo)
            for runner, members, lengths in groups:
                for batch in pack(lengths, self.budget):
                    chosen = [members[b] for b in batch]
                    values = run_halving(chosen, lambda part, runner=runner: self._values(runner, rows[part]))  # type: ignore[misc]
                    for i, value in zip(chosen, values.tolist(), strict=True):
                        self._known[keys[i]] = value

    def _groups(self, rows: Tensor, todo: list[int]) -> list[tuple[masking.Runner, list[int], list[int]]]:
        """The ways in which variants are run, the variants of each, and how many positions each variant takes."""
        quick = self._quick_runner()
        if quick is None:
            length = 1 if self.removal == "zero" else rows.shape[1]
            return [(self._runner, todo, [length] * len(todo))]
        needed = dropping.rows_needed(self.subject, rows[todo])
        if isinstance(quick, dropping.PrefixSharing):
            # Variants whose first removal is at a like place share a batch: sorted by what is left to compute.
            lengths = [len(needed[0]) - quick.shared(rows[i : i + 1]) for i in todo]
            return [(quick, todo, lengths)]
        # A read-out row whose own key is barred needs a mask; without it the others need none.
        bare = (needed == rows[todo]).all(1).tolist()
        counts = needed.sum(1).tolist()
        groups: list[tuple[masking.Runner, list[int], list[int]]] = []
        for flag in (True, False):
            members = [j for j in range(len(todo)) if bare[j] is flag]
            if members:
                groups.append((quick, [todo[j] for j in members], [counts[j] for j in members]))
        return groups

    def _values(self, runner: masking.Runner, keep: Tensor) -> Tensor:
        logits = runner(keep.to(self._device))
        values = self.subject.target.value(logits.float() if self.precision == "bfloat16" else logits).double().cpu()
        if not torch.isfinite(values).all():
            row = int((~torch.isfinite(values)).nonzero()[0])
            removed = [self.subject.encoded.names[i] for i in (~keep[row]).nonzero()[:, 0].tolist()]
            raise ModelError(f"{self.subject.adapter.name} answers with NaN or infinite logits when {removed[:8]} is removed")
        return values

    def _cast(self) -> Any:
        return torch.autocast(self.subject.adapter.device.type, torch.bfloat16) if self.precision == "bfloat16" else nullcontext()

    def _plain(self) -> masking.Runner:
        subject, kind = self.subject, self.removal
        text = "input_ids" in subject.encoded.inputs
        if kind == "attention-mask":
            return (
                masking.attention_mask(subject)
                if text and "attention_mask" in subject.adapter.arguments
                else masking.injected_mask(subject)
            )
        if kind == "zero":
            if text:
                raise InputError(
                    "removal='zero' is for tensors and images; texts take 'attention-mask', 'mask-token', 'pad-token' or 'delete'"
                )
            return masking.zeroed(subject)
        if not text:
            raise InputError(f"removal={kind!r} is for texts; images take 'attention-mask' or 'zero', tensors 'zero'")
        return masking.deleted(subject) if kind == "delete" else masking.token_runner(subject, kind)

    def _quick_runner(self) -> masking.Runner | None:
        """A runner that computes less, if it was proven on this model to agree with plain masking."""
        subject = self.subject
        if not self.quick or self.removal != "attention-mask" or len(subject.encoded) < 3 or not dropping.can_drop(subject):
            return None
        runner: masking.Runner = dropping.dropped_rows(subject)
        if subject.adapter.causal and "past_key_values" in subject.adapter.arguments:
            runner = dropping.PrefixSharing(subject)
        # Proven once per model and order of magnitude of the length.
        proofs: dict[Any, bool] = subject.adapter.proofs
        key = (type(runner).__name__, len(subject.encoded).bit_length(), subject.target.positions)
        if key not in proofs:
            proofs[key] = self._agrees(runner)
        return runner if proofs[key] else None

    def _agrees(self, runner: masking.Runner) -> bool:
        length = len(self.subject.encoded)
        generator = torch.Generator().manual_seed(length)
        keep = torch.rand(3, length, generator=generator) > torch.tensor([[0.2], [0.5], [0.5]])
        keep[:, sorted(self.subject.encoded.fixed)] = True
        keep[0, length // 2] = False
        keep[1, dropping.read_out_rows(self.subject)[0]] = False
        keep[2, -1] = True
        keep[~keep.any(1), 0] = True
        keep = keep.to(self._device)
        quick, plain = runner(keep).float(), self._runner(keep).float()
        return bool((quick - plain).abs().max() <= AGREEMENT * plain.abs().max().clamp(min=1.0))

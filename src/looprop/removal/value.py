"""The set function: f(kept features) -> the target's value, exact, batched, and computed once per subset.

A cache in front of a runner. Variants run by a shortcut that was proven, under `guarded`, or plainly.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from looprop.errors import InputError, UnknownNameError
from looprop.models.adapter import Removal
from looprop.models.subject import Subject, Values
from looprop.propagation.modules import evaluating
from looprop.removal.controls import check_plain, check_shortcut
from looprop.removal.ignored_mask import refuse_ignored_mask
from looprop.removal.shortcuts.choose import Shortcut, choose_shortcut
from looprop.removal.trust import check_version, guarded, is_dropped, run_alone_where_values_leave
from looprop.removal.variants import Variants

# Runs of fewer variants than this are not worth a shortcut and its checks.
FEWEST = 3

Precision = Literal["float32", "bfloat16"]
"""In which numbers the model runs when features are removed."""


class SetFunction:
    """Answers every question of what is left when features are removed.

    removal: how; None takes the default of the kind of input. precision: "bfloat16" is quicker on some machines and
    less exact. quick: leave out rows that nobody reads, where that is proven to agree with plain masking.
    batch_positions: how many positions one batch may hold; None takes what suits the device.
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
        self.subject, self.precision = subject, precision
        self.count = subject.cache.values.setdefault((self.removal, precision), Values())
        self._known, self._counted = self.count.by_subset, subject.target.counted
        self.quick = quick and self.removal == "attention-mask"
        self.variants = Variants(subject, self.removal, rough=precision != "float32", batch_positions=batch_positions)
        self.checked = 0
        self.fell_back: str | None = None
        member = torch.zeros(len(subject.features), subject.length, dtype=torch.bool)
        for feature, positions in enumerate(subject.features):
            member[feature, list(positions)] = True
        self._member = member  # (F, T)

    def __call__(self, keep: NDArray[np.bool_] | Tensor | Sequence[Sequence[bool]]) -> NDArray[np.float64]:
        """The target's value for every row of a boolean matrix of kept features. (N, F) -> (N,)"""
        tokens = self._tokens(keep)
        keys = _keys(tokens)
        self.count.asked += len(keys)
        while lacking := self._lacking(keys):  # again where a shortcut was dropped, and its values with it
            self._compute(keys, tokens, lacking)
        check_version(self.subject)  # also if all is known: values belong to one version
        told = self.count.told
        if told and any(key not in self._known for key in keys):
            return np.array([told[k, self._counted] if k not in self._known else self._totals([k])[0] for k in keys])
        return self._totals(keys)

    def _lacking(self, keys: list[bytes]) -> list[int]:
        """The rows that are not known, each subset once."""
        told = self.count.told
        found = {key: i for i, key in reversed(list(enumerate(keys)))}
        return sorted(i for key, i in found.items() if key not in self._known and (key, self._counted) not in told)

    def _compute(self, keys: list[bytes], tokens: Tensor, lacking: list[int]) -> None:
        rows = tokens[lacking]  # (M, T)
        whole = rows.all(1) & (self.precision == "float32")
        self._known.update((keys[lacking[i]], self.subject.parts) for i in whole.nonzero()[:, 0].tolist())
        rows = rows[~whole]
        if not len(rows):
            return
        with evaluating(self.subject.adapter.model), torch.inference_mode():
            shortcut = self.shortcut if len(rows) >= FEWEST else None
            if shortcut is None and len(rows) > 1:
                run_alone_where_values_leave(self.subject)
            if shortcut is None:
                self._take_plainly(rows)
            else:
                guarded(
                    self.subject,
                    shortcut.name,
                    prove=None,  # it is proven where it was chosen
                    run=partial(self._take_quickly, rows, shortcut),
                    plain=partial(self._without_shortcut, rows, shortcut),
                )

    @cached_property
    def _proven(self) -> Shortcut | None:
        return choose_shortcut(self.subject, self.variants.plain) if self.quick else None

    @property
    def shortcut(self) -> Shortcut | None:
        """A way that computes less, if it was proven to agree with plain masking and never failed."""
        return None if self.fell_back is not None else self._proven

    def _take_quickly(self, rows: Tensor, shortcut: Shortcut) -> None:
        parts = self.variants.run(shortcut, rows)
        if self.precision == "float32":
            self.checked += check_shortcut(self.variants, shortcut, rows, parts)
        self.take(rows, parts)

    def _take_plainly(self, rows: Tensor) -> None:
        parts = self.variants.run_plainly(rows)
        if self.precision == "float32":
            parts, checked = check_plain(self.variants, rows, parts)
            self.checked += checked
        self.take(rows, parts, quick=False)

    def _without_shortcut(self, rows: Tensor, shortcut: Shortcut, reason: str) -> None:
        """Plainly from now on. What the same shortcut gave before may be as wrong: it leaves the cache."""
        self.fell_back = f"{shortcut.name}: {reason or is_dropped(self.subject.adapter, shortcut.name)}"
        for key in self.count.quick:
            self._known.pop(key, None)
        self.count.quick.clear()
        self._take_plainly(rows)

    def _totals(self, keys: list[bytes]) -> NDArray[np.float64]:
        if not keys:
            return np.zeros(0)
        totals: NDArray[np.float64] = self.subject.target.total(torch.stack([self._known[key] for key in keys])).numpy()
        return totals

    @property
    def way(self) -> str:
        """How variants are run: by plain masking, or by a shortcut that was proven to agree with it."""
        shortcut = self.shortcut
        return "plain" if shortcut is None else shortcut.name

    def cost(self, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
        """What each row of a matrix of kept features (N, F) costs to compute, in forward passes of the intact input:
        the share of the rows of the sequence that is run, (N,).
        """
        shortcut = self.shortcut
        if shortcut is None:
            return np.ones(len(keep))
        subject = self.subject
        length = subject.length + subject.adapter.leading_positions(subject.encoded)
        lengths = shortcut.lengths(self._tokens(keep)).numpy().astype(np.float64)
        shares: NDArray[np.float64] = lengths / length
        return shares

    def report(self) -> dict[str, Any]:
        """How variants were run, how many were computed in a second way, too, and why a shortcut was given up."""
        said = {} if self.fell_back is None else {"fell_back": self.fell_back}
        return {"way": self.way, "checked": self.checked, **said}

    def is_known(self, keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which rows of kept features have been computed already: (N, F) -> (N,)."""
        return np.array([key in self._known for key in _keys(self._tokens(keep))], dtype=bool)

    def learn(self, keep: NDArray[np.bool_], values: NDArray[np.float64]) -> None:
        """Take over values that were computed elsewhere: rows of kept features (N, F), and the target's value for each
        (N,).
        """
        keys = [(key, self._counted) for key in _keys(self._tokens(keep))]
        self.count.told.update(zip(keys, values.tolist(), strict=True))

    def _tokens(self, keep: Any) -> Tensor:
        """Kept positions from kept features: (N, F) -> (N, T)."""
        matrix = keep.cpu() if isinstance(keep, Tensor) else torch.as_tensor(np.asarray(keep))
        if matrix.dtype != torch.bool:
            raise InputError(f"the matrix of kept features must be boolean, got {matrix.dtype}")
        if matrix.dim() != 2 or matrix.shape[1] != len(self._member):
            raise InputError(
                f"the matrix of kept features must have shape (N, {len(self._member)}), got {tuple(matrix.shape)}"
            )
        if self.removal != "zero" and not matrix.any(1).all() and not self.subject.something_stays:
            row = int((~matrix.any(1)).nonzero()[0])
            raise InputError(
                f"row {row} keeps no feature: what a Transformer answers without any key depends on how it is written"
            )
        return ~((~matrix).float() @ self._member.float()).bool()

    def missing(self, keep: NDArray[np.bool_]) -> Tensor:
        """The kept positions (M, T) of those rows of kept features (N, F) that are not known yet, each once; the intact
        input is none.
        """
        tokens = self._tokens(keep)
        rows = tokens[self._lacking(_keys(tokens))]
        return rows[~rows.all(1)]

    def take(self, rows: Tensor, parts: Tensor, *, quick: bool = True) -> None:
        """Keep what was computed for kept positions (M, T): the parts of their values (M, P)."""
        self.count.computed += len(rows)
        for key, own in zip(_keys(rows), parts, strict=True):
            self._known[key] = own
            if quick:
                self.count.quick.add(key)
        if self.removal == "attention-mask":
            refuse_ignored_mask(self.subject, self.subject.target.total(parts))


def _keys(tokens: Tensor) -> list[bytes]:
    """What subsets are known by: their kept positions (N, T), packed."""
    return [row.tobytes() for row in np.packbits(tokens.numpy(), axis=1)]

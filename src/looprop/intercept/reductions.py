"""Sums and means over rows, as a read-out takes them: recorded, or completed where only some rows are run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from looprop.intercept.mode import InterceptMode


@dataclass(frozen=True)
class Reduction:
    """One sum or mean over rows: of what (B, T, ...), and what came out."""

    mean: bool
    rows: Tensor
    out: Tensor


class ReductionMode(InterceptMode):
    """Answers every sum or mean over the second dimension of a tensor (B, R, ...).

    shape: (B, R). reduced: (rows, is it a mean, what the model's own call gives) -> what to give instead.
    """

    def __init__(self, shape: tuple[int, int], reduced: Callable[[Tensor, bool, Tensor], Tensor]) -> None:
        super().__init__()
        self.shape, self.reduced = shape, reduced

    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = function(*args, **kwargs)
        rows = args[0] if name in ("sum", "mean") and args else None
        if not isinstance(rows, Tensor) or tuple(rows.shape[:2]) != self.shape:
            return out
        dims = kwargs.get("dim", args[1] if len(args) > 1 else None)
        dims = dims if isinstance(dims, (tuple, list)) else (dims,)
        if len(dims) != 1 or dims[0] not in (1, 1 - rows.dim()):
            return out
        return self.reduced(rows, name == "mean", out)


def recording(shape: tuple[int, int], found: list[Reduction]) -> ReductionMode:
    """A mode that notes every reduction over rows."""

    def note(rows: Tensor, mean: bool, out: Tensor) -> Tensor:
        found.append(Reduction(mean, rows, out))
        return out

    return ReductionMode(shape, note)


def completing(intact: Sequence[Tensor], rows: Tensor, real: Tensor) -> ReductionMode:
    """A mode in which reductions over rows (N, k) count all other rows of the intact input as they were.

    intact: what was reduced there (T, ...), in order. real: (N, k), False for rows that only fill up.
    """
    left = list(intact)

    def complete(own: Tensor, mean: bool, out: Tensor) -> Tensor:
        if not left or own.shape[2:] != left[0].shape[1:]:
            return out  # no rows: as many classes, say
        whole = left.pop(0).to(out.dtype)
        change = (own.to(out.dtype) - whole[rows]) * real.view(*real.shape, *[1] * (own.dim() - 2)).to(out.dtype)
        total = whole.sum(0) + change.sum(1)
        return (total / len(whole) if mean else total).view(out.shape)

    return ReductionMode((rows.shape[0], rows.shape[1]), complete)

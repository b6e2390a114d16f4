"""Fewer rows in the first and in the last layer of a model that runs many variants of one input."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from looprop.intercept.operations import operation_name
from looprop.intercept.sites import FusedCall, fused_call


class FewerRowsMode(TorchFunctionMode):
    """Leaves out what is computed already and what nobody reads. Patches nothing.

    Until the first attention site, rows that hold one position of the input are the same: they are projected once.
    After the last, only the read-out goes on.

    sites: how many attention sites the model has. positions: (B, R) what the rows hold. read_out: rows (B, R, D) ->
    those that are read off. attend: answers a fused site in the model's place, and is told whether it is the last.
    """

    def __init__(
        self,
        sites: int,
        positions: Tensor,
        read_out: Callable[[Tensor], Tensor],
        attend: Callable[[FusedCall, bool], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.sites, self.left, self.cut = sites, sites, False
        self.shape, self.read_out, self.attend = positions.shape, read_out, attend
        distinct, self.holds = torch.unique(positions.flatten(), return_inverse=True)
        self.one_of_each = torch.empty_like(distinct).scatter_(
            0, self.holds, torch.arange(len(self.holds), device=distinct.device)
        )

    def __torch_function__(
        self, function: Any, types_: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if name == "linear" and self._all_rows(args[0]):
            if self.left == self.sites:
                once = function(args[0].flatten(0, 1)[self.one_of_each], *args[1:], **kwargs)
                return once[self.holds].view(*self.shape, -1)
            if self.left == 0 and not self.cut:
                self.cut = True
                return function(self.read_out(args[0]), *args[1:], **kwargs)
        elif name == "scaled_dot_product_attention":
            self.left -= 1
            if self.attend is not None:
                return self.attend(fused_call(self.sites - self.left, args, kwargs), self.left == 0)
        elif self.left and name == "softmax" and args[0].dim() == 4:
            self.left -= 1
        elif self.left == 0 and operation_name(function)[0] == "add" and len(args) > 1:
            return self._residual_sum(function, args, kwargs)
        return function(*args, **kwargs)

    def _residual_sum(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Two streams are added: whichever still has all rows is cut to the read-out."""
        whole = [self._all_rows(part) for part in args[:2]]
        if not self.cut and all(whole):
            self.cut = True
            return self.read_out(function(*args, **kwargs))
        if (
            self.cut
            and any(whole)
            and not all(whole)
            and all(isinstance(part, Tensor) and part.dim() == 3 for part in args[:2])
        ):
            args = (
                *(self.read_out(part) if rows else part for part, rows in zip(args, whole, strict=False)),
                *args[2:],
            )
        return function(*args, **kwargs)

    def _all_rows(self, value: Any) -> bool:
        return isinstance(value, Tensor) and value.dim() == 3 and value.shape[:2] == self.shape

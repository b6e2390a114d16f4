"""Fewer rows in the first and in the last layer of a model."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from looprop.intercept.attention import AttentionCall
from looprop.intercept.mode import InterceptMode


class ReadRowsMode(InterceptMode):
    """After the last attention site only the rows go on that the answer is read from.

    sites: how many attention sites the model has. shape: (B, R) of its rows. cut_to_answer: rows (B, R, D) -> those
    that are read off. attend: answers a fused site in the model's place, and is told whether it is the last.
    """

    def __init__(
        self,
        sites: int,
        shape: torch.Size,
        cut_to_answer: Callable[[Tensor], Tensor],
        attend: Callable[[AttentionCall, bool], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.sites, self.left, self.cut = sites, sites, False
        self.shape, self.cut_to_answer, self.attend = shape, cut_to_answer, attend

    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name == "linear":
            if self.left == 0 and not self.cut and self._all_rows(args[0]):
                self.cut = True
                args = (self.cut_to_answer(args[0]), *args[1:])
            return self.linear(function, args, kwargs)
        if name == "scaled_dot_product_attention":
            self.left -= 1
            if self.attend is not None:
                return self.attend(AttentionCall.parse(self.sites - self.left, args, kwargs), self.left == 0)
        elif self.left and name == "softmax" and args[0].dim() == 4:
            self.left -= 1
        elif self.left == 0 and name == "add" and len(args) > 1:
            return self._residual_sum(function, args, kwargs)
        return function(*args, **kwargs)

    def linear(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The product of rows with a weight."""
        return function(*args, **kwargs)

    def _residual_sum(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Two streams are added: whichever still has all rows is cut to the rows that are read."""
        whole = [self._all_rows(part) for part in args[:2]]
        if not self.cut and all(whole):
            self.cut = True
            return self.cut_to_answer(function(*args, **kwargs))
        streams = all(isinstance(part, Tensor) and part.dim() == 3 for part in args[:2])
        if self.cut and streams and any(whole) and not all(whole):
            cut = [self.cut_to_answer(part) if rows else part for part, rows in zip(args, whole, strict=False)]
            args = (*cut, *args[2:])
        return function(*args, **kwargs)

    def _all_rows(self, value: Any) -> bool:
        return isinstance(value, Tensor) and value.dim() == 3 and value.shape[:2] == self.shape


class FewerRowsMode(ReadRowsMode):
    """Also leaves out what is computed already, where many variants of one input run: until the first attention site,
    rows that hold one position of the input are the same, and are projected once.

    positions: (B, R) what the rows hold.
    """

    def __init__(
        self,
        sites: int,
        positions: Tensor,
        cut_to_answer: Callable[[Tensor], Tensor],
        attend: Callable[[AttentionCall, bool], Tensor] | None = None,
    ) -> None:
        super().__init__(sites, positions.shape, cut_to_answer, attend)
        distinct, self.holds = torch.unique(positions.flatten(), return_inverse=True)
        self.one_of_each = torch.empty_like(distinct).scatter_(
            0, self.holds, torch.arange(len(self.holds), device=distinct.device)
        )

    def linear(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One row of each position before the first site."""
        if self.left < self.sites or not self._all_rows(args[0]):
            return function(*args, **kwargs)
        once = function(args[0].flatten(0, 1)[self.one_of_each], *args[1:], **kwargs)
        return once[self.holds].view(*self.shape, -1)

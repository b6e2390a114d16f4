"""A small network around one operation, with fixed numbers."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

import looprop
from looprop import Plan
from looprop.methods.lrp import LRP

DIM = 4
GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(2, DIM, dtype=torch.float64, generator=GENERATOR)
W, W2 = (torch.randn(DIM, DIM, dtype=torch.float64, generator=GENERATOR).requires_grad_() for _ in range(2))
B = torch.randn(DIM, dtype=torch.float64, generator=GENERATOR).requires_grad_()
SEQUENCE = torch.randn(2, 3, DIM, dtype=torch.float64, generator=GENERATOR)


class Wrapped(nn.Module):
    """A function in the middle of a module, at a path that errors should name."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.middle = _Middle(function)
        self.weight = W

    def forward(self, x: Tensor) -> Tensor:
        out = self.middle(x @ self.weight)
        return out.reshape(len(x), -1).sum(-1)


class _Middle(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def scores(function: Callable[[Tensor], Tensor], plan: Plan | None = None, x: Tensor = X) -> Tensor:
    return looprop.attribute(Wrapped(function), x, LRP(plan=plan or Plan()))

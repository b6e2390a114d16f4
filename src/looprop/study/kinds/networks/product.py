"""Figure 1: the scalar product of three numbers in its two groupings."""

from torch import Tensor

POINT = (2.0, 3.0, 4.0)
"""Where figure 1 explains x1 x2 x3."""


def left_product(x: Tensor) -> Tensor:
    """(x1 x2) x3"""
    return (x[:, 0] * x[:, 1]) * x[:, 2]


def right_product(x: Tensor) -> Tensor:
    """x1 (x2 x3)"""
    return x[:, 0] * (x[:, 1] * x[:, 2])

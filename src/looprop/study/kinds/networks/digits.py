"""The digits that the networks of RQ1 see: 14 x 14 pixels, one token each."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from looprop.inputs.examples import draw
from looprop.inputs.mnist import Digits

SIDE = 14


@dataclass(frozen=True, eq=False)
class DrawnDigits:
    """Digits of a set with their names, whole or drawn. pixels: (N, 196). total: how many the set has."""

    split: str
    names: list[str]
    pixels: Tensor
    total: int

    @property
    def subset(self) -> bool:
        """Were digits left out?"""
        return len(self.names) < self.total

    @property
    def title(self) -> str:
        """The name for tables and reports; a subset says that it is one."""
        part = f" (subset: {len(self.names):,} of {self.total:,})" if self.subset else ""
        return f"mnist/{self.split}{part}"


def draw_digits(digits: Digits, *, limit: int | None, seed: int) -> DrawnDigits:
    """All digits, or `limit` of them drawn by `seed`, as pixels."""
    names = [f"mnist/{digits.split}/{i}" for i in range(len(digits))]
    chosen = draw(names, limit=limit, seed=seed)
    return DrawnDigits(digits.split, [names[i] for i in chosen], shrink(digits.images[chosen]), len(digits))


def shrink(images: NDArray[np.uint8], *, side: int = SIDE) -> Tensor:
    """Grey levels (N, 28, 28) as pixels in [0, 1] at (N, side * side): antialiased bilinear resize."""
    pixels = torch.from_numpy(images.astype(np.float32) / 255.0)[:, None]
    small = nn.functional.interpolate(pixels, size=(side, side), mode="bilinear", antialias=True, align_corners=False)
    return small.flatten(1)

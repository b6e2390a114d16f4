"""One reading of the paper: how its networks are built and trained, where it leaves that open."""

from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor

from looprop.errors import DataError, UnknownNameError
from looprop.study.kinds.networks.training import LinearAttention, Recipe

MEAN, DEVIATION = 0.1307, 0.3081
"""Of MNIST's training pixels, as everyone uses them to standardise."""

Scale = Literal["unit", "standard"]


@dataclass(frozen=True)
class Reading(Recipe):
    """One way to build and train the networks, and on how many of them.

    positions, pooled: as in `LinearAttention`. scale: pixels from 0 to 1, or standardised with MNIST's mean and
    deviation.
    """

    positions: bool = False
    pooled: bool = False
    scale: Scale = "unit"
    seeds: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale not in get_args(Scale):
            raise UnknownNameError("scale", str(self.scale), get_args(Scale))
        if type(self.seeds) is not int or self.seeds < 1:
            raise DataError(f"seeds must be an integer >= 1, got {self.seeds!r}")

    def network(self) -> LinearAttention:
        return LinearAttention("kv_first", positions=self.positions, pooled=self.pooled)

    def scaled(self, pixels: Tensor) -> Tensor:
        return (pixels - MEAN) / DEVIATION if self.scale == "standard" else pixels

    @property
    def black(self) -> float:
        """What a black pixel is to the network."""
        return -MEAN / DEVIATION if self.scale == "standard" else 0.0

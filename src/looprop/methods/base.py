"""What a method is."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from looprop.models.subject import Subject


@dataclass(frozen=True, eq=False)
class Attribution:
    """What a method says about one subject.

    scores: one per feature. residual: output minus sum of scores, for methods that promise completeness.
    cost: in forward passes of the intact input.
    """

    scores: NDArray[np.float64]
    cost: float
    residual: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


class Method(ABC):
    """A way to explain. The constructor stores validated options; subjects come to `attribute`."""

    name: ClassVar[str]
    summary: ClassVar[str]
    complete: ClassVar[bool] = False

    @property
    def options(self) -> dict[str, Any]:
        """The options in force, as plain data."""
        return dict(vars(self))

    @abstractmethod
    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        """One attribution per subject; all subjects share one model."""

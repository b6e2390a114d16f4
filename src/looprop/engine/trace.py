"""What the engine remembers about a tensor while a model runs under it."""

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

_ATTRIBUTE = "_looprop_trace"


@dataclass(frozen=True, slots=True)
class Trace:
    """A note on one tensor.

    token: the mode that saw the tensor being made; a tensor that carries gradient without it came from an
        operation that the engine could not see.
    origin: the tensor of which this one is a pointwise function (a chain of pointwise operations is one activation).
    at_zero: the value of that pointwise function at 0; the identity rule needs it to be 0.
    culprit: the operation that made `at_zero` differ from 0.
    linear: the pointwise function is a mere scaling, its graph is right as it is.
    square: the pointwise function is a square (the beginning of a norm).
    mean_square: a sum or mean of squares (the next part of a norm).
    normaliser: a standard deviation or its inverse, held constant; it may only multiply or divide.
    product: a product of two activations, on its way to a softmax; holds the two factors.
    unweighted: that product before its epsilon factor, for a scale that is still to come.
    site: the attention site whose weights this tensor holds.
    """

    token: object
    origin: Tensor | None = None
    at_zero: float = 0.0
    culprit: str = ""
    linear: bool = True
    square: bool = False
    mean_square: bool = False
    normaliser: bool = False
    product: tuple[Tensor, Tensor] | None = None
    unweighted: Tensor | None = None
    site: int | None = None

    def but(self, **changes: Any) -> "Trace":
        """A copy with some entries changed."""
        return replace(self, **changes)


def trace_of(tensor: Tensor) -> Trace | None:
    """The note on a tensor, if there is one."""
    return getattr(tensor, _ATTRIBUTE, None)


def mark(tensor: Tensor, trace: Trace) -> Tensor:
    """Leave a note on a tensor; a view tells its base, which carries gradient from then on."""
    setattr(tensor, _ATTRIBUTE, trace)
    return tensor

"""What the engine remembers about a tensor while a model runs under it."""

from typing import Any, Literal, NamedTuple

from torch import Tensor

_ATTRIBUTE = "_looprop_trace"


class Trace(NamedTuple):
    """A note on one tensor; hundreds are made in every pass, and a named tuple is the quickest to copy.

    token: stands for the mode that saw the tensor being made; a tensor that carries gradient without it came from an
        operation that the engine could not see.
    origin: the tensor of which this one is a pointwise function (a chain of pointwise operations is one activation).
    at_zero: the value of that pointwise function at 0; the identity rule needs it to be 0.
    culprit: the operation that made `at_zero` differ from 0, or that made `held`.
    linear: the pointwise function is a mere scaling, its graph is right as it is.
    square: the pointwise function is a square (the beginning of a norm).
    mean_square: a sum or mean of squares (the next part of a norm).
    held: why a tensor that came from activations carries no gradient. "normaliser": a standard deviation or its
        inverse, which may only multiply or divide; "weights": attention weights under CP-LRP; "cut": made with
        gradients turned off.
    product: a product of two activations, on its way to a softmax; holds the two factors.
    factor: the number by which that product has been scaled since.
    unweighted: that product before its epsilon factor, for a scale that is still to come.
    site: the attention site whose weights this tensor holds.
    degree: of how many activations this tensor is a product, linear operations aside; used by the canonical form of
        products.
    versions: of the tensor and its origin when the note was made; a change in place leaves them behind.
    """

    token: object
    origin: Tensor | None = None
    at_zero: float = 0.0
    culprit: str = ""
    linear: bool = True
    square: bool = False
    mean_square: bool = False
    held: Literal["", "normaliser", "weights", "cut"] = ""
    product: tuple[Tensor, Tensor] | None = None
    factor: float = 1.0
    unweighted: Tensor | None = None
    site: int | None = None
    degree: int = 1
    versions: tuple[int, int] | None = None

    def but(self, **changes: Any) -> "Trace":
        """A copy with some entries changed."""
        return self._replace(**changes)


def trace_of(tensor: Tensor) -> Trace | None:
    """The note on a tensor, if there is one, without what a later change in place has made untrue."""
    trace: Trace | None = getattr(tensor, _ATTRIBUTE, None)
    if trace is None or trace.versions is None or trace.versions == _versions(tensor, trace.origin):
        return trace
    return trace.but(origin=None, square=False, mean_square=False, unweighted=None, versions=None)


def trace_known(tensor: Tensor) -> Trace:
    """The note on an activation: the mode refuses those without one before any rule sees them."""
    trace = trace_of(tensor)
    assert trace is not None
    return trace


def mark(tensor: Tensor, trace: Trace) -> Tensor:
    """Leave a note on a tensor."""
    if trace.origin is not None or trace.square or trace.mean_square or trace.unweighted is not None:
        trace = trace._replace(versions=_versions(tensor, trace.origin))
    elif trace.versions is not None:
        trace = trace._replace(versions=None)
    setattr(tensor, _ATTRIBUTE, trace)
    return tensor


def _versions(tensor: Tensor, origin: Tensor | None) -> tuple[int, int]:
    return tensor._version, -1 if origin is None else origin._version

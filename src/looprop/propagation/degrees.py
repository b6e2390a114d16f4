"""The canonical form of products: of how many activations a tensor is a product, linear operations aside.

(x1 x2) x3 and x1 (x2 x3) are one trilinear operation. With equal shares each factor of a product of k activations gets
1/k of its
relevance: at a product of one part with m and one with n activations behind it, the parts get m / (m + n) and n / (m +
    n).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from looprop.propagation.call import mark, trace_of
from looprop.propagation.gradients import scale_gradient

if TYPE_CHECKING:
    from looprop.propagation.call import Call


def degree(tensor: Tensor) -> int:
    """Of how many activations a tensor is a product."""
    trace = trace_of(tensor)
    return 1 if trace is None else trace.degree


def total(call: Call) -> int:
    """The degree of the product of a call's activations; without the canonical form nothing is counted."""
    return sum(map(degree, call.activations)) if call.plan.bilinear == "canonical" else 1


def common(call: Call) -> int:
    """The degree of all of a call's activations, if it is one number."""
    found = {degree(t) for t in call.activations}
    return found.pop() if len(found) == 1 else 1


def uneven(call: Call) -> bool:
    """Whether one of the factors of a product is itself a product, so that in canonical form the factors do not get
    halves.
    """
    return call.plan.bilinear == "canonical" and any(degree(t) > 1 for t in call.activations)


def run_with_shares(call: Call) -> Any:
    """A product whose factors get as many shares of the relevance as activations stand behind them."""
    whole = total(call)

    def shared(value: Any) -> Any:
        if isinstance(value, Tensor) and value.requires_grad:
            return scale_gradient(value, degree(value) / whole)
        return type(value)(map(shared, value)) if type(value) in (list, tuple) else value

    return call.run(*map(shared, call.args), **{key: shared(value) for key, value in call.kwargs.items()})


def still(call: Call, out: Tensor) -> Tensor:
    """The result of a linear operation: a product of as many activations as before."""
    return noted(call, out, degree(call.activations[0]))


def summed(call: Call, out: Tensor) -> Tensor:
    """A sum of products of equally many activations, to which nothing constant is added, is one too."""
    reduction = call.name in ("sum", "mean")
    constant = not reduction and len(call.activations) < 2
    return out if constant else noted(call, out, common(call))


def noted(call: Call, out: Tensor, found: int) -> Tensor:
    """A tensor with a note of its degree."""
    return out if found == 1 else mark(out, (trace_of(out) or call.mode.fresh).but(degree=found))

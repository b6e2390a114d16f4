"""Fourier transforms: linear maps, so that relevance follows the gradient."""

from typing import Any

from looprop.propagation import degrees, operations
from looprop.propagation.call import Call
from looprop.propagation.rules.base import rule


@rule(*operations.TRANSFORM)
def fourier(call: Call) -> Any:
    """A Fourier transform; its real part is the sum that the epsilon rule would stabilise."""
    if call.plan.epsilon:
        raise call.refuse("a Fourier transform has complex values, for which a positive epsilon is not defined")
    return degrees.still(call, call.run())

"""Mixtures of experts: the grouped products with which many experts are computed in one call."""

from typing import Any

from looprop.propagation import degrees, operations
from looprop.propagation.call import Call
from looprop.propagation.rules.base import rule
from looprop.propagation.rules.linear import weighed


@rule(*operations.GROUPED)
def grouped_product(call: Call) -> Any:
    """Each row times the matrix of its expert: a linear layer."""
    if len(call.activations) > 1:
        raise call.refuse("the matrices of the experts depend on activations")
    return degrees.still(call, weighed(call, call.run()))

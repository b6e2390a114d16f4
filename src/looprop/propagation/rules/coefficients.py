"""Coefficients: what activations make of themselves only to multiply others, or to choose among them.

A gate (sigmoid), the weights of a router (softmax, sigmoid), the decay of a state (softplus, exp) have f(0) != 0, so
that the identity rule has no meaning for them. They are held constant: the signal that they multiply takes all
relevance, and nothing is lost. A coefficient that is added to activations, or that reaches the output, is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from looprop.propagation.call import Trace, mark, trace_known

if TYPE_CHECKING:
    from looprop.propagation.call import Call


def hold(call: Call) -> None:
    """Where a pointwise function with f(0) != 0 ends, take its values as constants."""
    for tensor in tuple(call.activations):
        trace = trace_known(tensor)
        if trace.at_zero == 0.0:
            continue
        if trace.product is not None and all(factor.requires_grad for factor in trace.product):
            raise call.refuse(
                "a function of attention scores with f(0) != 0: attention weights have a rule only where they are made "
                "by softmax",
                culprit=trace.culprit,
            )
        call.replace(tensor, constant(call, tensor, trace.culprit))


def settle(call: Call) -> bool:
    """Hold the coefficients of a sum or a product; whether no activation is left beside them."""
    if any(trace_known(tensor).at_zero != 0.0 for tensor in call.activations):
        hold(call)
        if call.activations:
            call.check_held()
    return not call.activations


def constant(call: Call, tensor: Tensor, culprit: str = "") -> Tensor:
    """The values of a tensor, noted as coming from activations; itself where the plan lets gradients pass."""
    if call.mode.plain or call.name in call.plan.allow or call.plan.activation == "gradient":
        return tensor
    return mark(tensor.detach(), call.mode.fresh.but(held="coefficient", culprit=culprit or call.name))


def as_coefficient(trace: Trace) -> Trace:
    """The note on an activation that was overwritten in place by a coefficient: no value at 0 would be right."""
    return trace.but(held="", at_zero=float("nan"))

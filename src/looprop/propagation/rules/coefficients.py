"""Coefficients: what activations make of themselves only to multiply others, or to choose among them.

A gate (sigmoid), the weights of a router (softmax, sigmoid), the decay of a state (softplus, exp) have f(0) != 0, so
that the identity rule has no meaning for them. They are held constant: the signal that they multiply takes all
relevance, and nothing is lost. A coefficient that is added to activations, or that reaches the output, is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from looprop.propagation import gradients, operations
from looprop.propagation.call import Trace, mark, tensors_in, trace_known

if TYPE_CHECKING:
    from looprop.propagation.call import Call

# What may take half of a product's relevance; steps and decays of a state never do.
BOUNDED = frozenset({"sigmoid", "hardsigmoid", "softmax"})
# What is chosen by these is the weight of an expert.
CHOOSES = frozenset({"topk", "sort", "gather", "take_along_dim", "scatter"})


def hold(call: Call) -> None:
    """Where a pointwise function with f(0) != 0 ends, take its values as constants, unless the plan splits here."""
    for tensor in tuple(call.activations):
        trace = trace_known(tensor)
        if trace.at_zero == 0.0 or _splits(call, trace):
            continue
        if trace.product is not None and all(factor.requires_grad for factor in trace.product):
            raise call.refuse(
                "a function of attention scores with f(0) != 0: attention weights have a rule only where they are made "
                "by softmax",
                culprit=trace.culprit,
            )
        call.replace(tensor, constant(call, tensor, trace.culprit))


def _splits(call: Call, trace: Trace) -> bool:
    """Whether a gate or router goes on with its gradient: on its way to a signal, or where it meets one."""
    plan = call.plan
    if trace.culprit not in BOUNDED or "halves" not in (plan.gate, plan.experts):
        return False
    chosen = trace.router or call.name in CHOOSES
    uneven = sum(trace_known(tensor).at_zero != 0.0 for tensor in call.activations)
    if len(call.activations) == 2 and uneven == 1 and (call.name == "mul" or call.name in operations.MATRIX_PRODUCT):
        return (plan.experts if chosen else plan.gate) == "halves"
    alone = len(call.activations) == 1 and (call.name in operations.PASS or call.name in ("mul", "div"))
    return alone and (plan.experts == "halves" or not chosen)


def carried(call: Call, out: Any) -> Any:
    """What is made of a gate or router that goes on with its gradient is one, too."""
    trace = trace_known(call.activations[0])
    router = trace.router or call.name in CHOOSES
    for tensor in tensors_in((out,)):
        if tensor.requires_grad:
            mark(tensor, call.mode.fresh.but(at_zero=float("nan"), culprit=trace.culprit, router=router))
    return out


def goes_on(call: Call) -> bool:
    """Whether the only activation of a call is a gate or router that has kept its gradient."""
    return len(call.activations) == 1 and trace_known(call.activations[0]).at_zero != 0.0


def settle(call: Call) -> bool:
    """Hold the coefficients of a sum or a product; whether no activation is left beside them."""
    if any(trace_known(tensor).at_zero != 0.0 for tensor in call.activations):
        hold(call)
        if call.activations:
            call.check_held()
    return not call.activations


def router_weights(call: Call, weights: Tensor) -> Tensor:
    """The softmax of a router: constants, or with its gradient (the Taylor rule) where the plan splits."""
    if call.plan.experts == "constant" or not weights.requires_grad:
        return constant(call, weights)
    return mark(weights, call.mode.fresh.but(at_zero=float("nan"), culprit=call.name, router=True))


def constant(call: Call, tensor: Tensor, culprit: str = "") -> Tensor:
    """The values of a tensor, noted as coming from activations; itself where the plan lets gradients pass."""
    if call.mode.plain or call.name in call.plan.allow or call.plan.activation == "gradient":
        return tensor
    return mark(gradients.hold(tensor), call.mode.fresh.but(held="coefficient", culprit=culprit or call.name))


def as_coefficient(trace: Trace) -> Trace:
    """The note on an activation that was overwritten in place by a coefficient: no value at 0 would be right."""
    return trace.but(held="", at_zero=float("nan"))

"""The rule of a product of two activations."""

from typing import Any

from torch import Tensor

from looprop.engine import attention, degrees
from looprop.engine.call import Call
from looprop.engine.gradients import epsilon_factor, scale_gradient, weigh_gradient
from looprop.engine.trace import mark, trace_of


def product(call: Call) -> Any:
    """A product of two activations: half of the relevance to each, denominator 2 O + epsilon sign(O).

    In canonical form a factor that is itself a product of n activations gets n shares.
    """
    plan, matrix = call.plan, call.name != "mul"
    if len(call.activations) > 2:
        raise call.refuse("it multiplies more than two activations at once")
    rule = attention.product_rule(call) if matrix else plan.product
    uneven = degrees.uneven(call) and rule != "gradient"
    out = degrees.run_with_shares(call) if uneven else call.run()
    if rule == "gradient" or uneven:
        halved = out
    elif plan.epsilon:
        halved = weigh_gradient(out, epsilon_factor(out.detach(), plan.epsilon, shares=2))
    else:
        halved = scale_gradient(out, 0.5)
    left, right = call.activations
    # Weights times values are no scores: a softmax that meets them is not another attention.
    scores = matrix and site_of(left) is None and site_of(right) is None
    weighed = plan.epsilon and scores and rule != "gradient"
    degree = degrees.total(call) if rule != "gradient" else 1
    mark(halved, call.mode.fresh.but(product=(left, right) if scores else None, unweighted=out if weighed else None, degree=degree))
    return attention.values_met(call, halved) if matrix else halved


def site_of(tensor: Tensor) -> int | None:
    """The attention site whose weights a tensor holds."""
    trace = trace_of(tensor)
    return None if trace is None else trace.site

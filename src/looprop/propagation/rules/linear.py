"""Rules of linear layers, norms whose deviation is a constant, and products of two activations: the epsilon rule and
its halves.
"""

from typing import Any

import torch
from torch import Tensor

from looprop.propagation import degrees, operations
from looprop.propagation.call import Call, mark, trace_known, trace_of
from looprop.propagation.gradients import constant_std_norm, epsilon_factor, scale_gradient, weigh_gradient
from looprop.propagation.rules import attention, contributions
from looprop.propagation.rules.base import rule


@rule(*operations.LINEAR)
def linear(call: Call) -> Any:
    """The epsilon rule: the gradient, times z / (z + epsilon sign(z)); or by the sign of contributions."""
    bias = _bias(call)
    added = bias is not None and bias.requires_grad
    if len(call.activations) - added > 1:
        if added:
            raise call.refuse("it adds an activation to a product of two")
        return product(call)
    out = _shared_among_inputs(call, _in_one_block(call), None if added else bias)
    return out if bias is not None else degrees.still(call, out)


def _shared_among_inputs(call: Call, out: Tensor, bias: Tensor | None) -> Tensor:
    """The output of a linear layer with one activation, by the linear rule of the plan."""
    plan = call.plan
    if plan.linear != "epsilon":
        return contributions.by_sign(call, out, bias)
    if plan.bias == "shared" and bias is not None:
        return weighed(call, contributions.with_bias_shared(call, out, bias))
    if plan.bias == "placed" and bias is not None:
        return weighed(call, contributions.with_bias_placed(call, out, bias))
    return weighed(call, out, without=bias)


def _in_one_block(call: Call) -> Any:
    """The call itself; rows cut out of a sequence (a decoder's last) are copied, else torch
    multiplies them one by one.
    """
    x = call.args[0] if call.args else None
    if call.name != "linear" or not isinstance(x, Tensor) or not x.requires_grad:
        return call.run()
    args = call.args if x.dim() < 3 or x.is_contiguous() else (x.contiguous(), *call.args[1:])
    return call.run(*args)


def _bias(call: Call) -> Tensor | None:
    """The term that is added to the product, in a shape that fits the output."""
    adds_first = call.name.startswith(("add", "badd"))  # addmm(bias, x, weight) and its kin
    position = 0 if adds_first else 2
    value = call.args[position] if len(call.args) > position else call.kwargs.get("bias")
    if not isinstance(value, Tensor) or value.requires_grad:
        return value if isinstance(value, Tensor) else None
    if adds_first:
        scaled: Tensor = value * call.kwargs.get("beta", 1)
        return scaled
    return value.reshape(-1, *[1] * int(call.name[-2])) if call.name.startswith("conv") else value


@rule(*operations.BATCH_NORM)
def batch_norm(call: Call) -> Any:
    """With stored statistics a linear layer; with those of the batch no rule fits."""
    names = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
    given = {**dict(zip(names, call.args, strict=False)), **call.kwargs}
    if given.get("training") or given.get("running_mean") is None:
        raise call.refuse("it normalises by the statistics of the batch")
    if len(call.activations) > 1:
        raise call.refuse("its weight or statistics depend on activations")
    x, eps = given["input"], given.get("eps", 1e-5)
    scale = torch.rsqrt(given["running_var"] + eps)
    scale = scale if given.get("weight") is None else scale * given["weight"]
    shift = -given["running_mean"] * scale
    shift = shift if given.get("bias") is None else shift + given["bias"]
    # Written out: on a CPU torch's own backward pass is wrong for a gradient whose channels come last.
    scale, shift = (value.reshape(-1, *[1] * (x.dim() - 2)) for value in (scale, shift))
    return weighed(call, x * scale + shift, without=shift)


@rule(*operations.NORM)
def norm(call: Call) -> Any:
    """Layer norm and RMS norm with the standard deviation as a constant, then as a linear layer."""
    if call.plan.norm == "gradient":
        return call.run()
    names: tuple[str, ...] = ("input", "normalized_shape", "weight", "bias", "eps")
    if call.name not in ("layer_norm", "rms_norm"):
        raise call.refuse("it returns its statistics, which have no rule")
    if len(call.activations) > 1:
        raise call.refuse("its weight or bias depends on activations")
    if call.name == "rms_norm":
        names = ("input", "normalized_shape", "weight", "eps")
    given = {**dict(zip(names, call.args, strict=False)), **call.kwargs}
    x, weight, bias = given["input"], given.get("weight"), given.get("bias")
    eps = given.get("eps")
    if eps is None:
        eps = torch.finfo(x.dtype).eps if call.name == "rms_norm" else 1e-5
    shape, centered = list(given["normalized_shape"]), call.name == "layer_norm"
    out = constant_std_norm(x, shape, weight, bias, eps, centered=centered)
    if call.plan.bias == "shared" and bias is not None:
        dims = tuple(range(-len(shape), 0))
        sizes = contributions.norm_sizes(x, dims, weight, eps, centered=centered)
        return weighed(call, contributions.shared(out, bias, sizes))
    if call.plan.bias == "placed" and bias is not None:
        return weighed(call, contributions.with_bias_placed(call, out, bias))
    return weighed(call, out, without=bias)


@rule(*operations.MATRIX_PRODUCT)
def matrix_product(call: Call) -> Any:
    """Linear in its one activation, or a product of two."""
    if len(call.activations) > 1:
        return product(call)
    linear = call.name in contributions.MULTIPLIES and not call.held  # weights of attention that are held are no layer
    shared = _shared_among_inputs(call, call.run(), None) if linear else weighed(call, call.run())
    out = degrees.still(call, attention.values_met(call, shared))
    if call.name in ("matmul", "bmm") and not call.held and call.args[1].requires_grad:
        # The scores of a learned query, if a softmax over the keys should follow.
        mark(out, (trace_of(out) or call.mode.fresh).but(product=(call.args[0], call.args[1])))
    return out


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
    scores = matrix and trace_known(left).site is None and trace_known(right).site is None
    weighed = plan.epsilon and scores and rule != "gradient"
    degree = degrees.total(call) if rule != "gradient" else 1
    mark(
        halved,
        call.mode.fresh.but(
            product=(left, right) if scores else None,
            pairs="" if matrix else "an elementwise product of activations",
            unweighted=out if weighed else None,
            degree=degree,
        ),
    )
    return attention.values_met(call, halved) if matrix else halved


def weighed(call: Call, out: Tensor, *, without: Tensor | None = None) -> Tensor:
    """The epsilon factor on the gradient of an output; without: the additive part that `bias="printed"` leaves out of
    z.
    """
    plan = call.plan
    if plan.bias == "shared" and without is not None:
        raise call.refuse("bias='shared' is defined for linear layers, convolutions and layer norms")
    if plan.bias == "printed" and without is not None:
        z = (out - without).detach()
        return weigh_gradient(out, epsilon_factor(z, plan.epsilon, value=out.detach()))
    return weigh_gradient(out, epsilon_factor(out.detach(), plan.epsilon)) if plan.epsilon else out

"""Linear layers by the contributions z_ij = x_i W_ji of their inputs: the gamma and the alpha-beta rule, and biases
that are shared out. Written with held slopes, so that the value is what it was; the equations stand in reference.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from looprop.propagation.gradients import hold, ratio

if TYPE_CHECKING:
    from looprop.propagation.call import Call

MULTIPLIES = frozenset({"matmul", "rmatmul", "bmm", "mm", "mv"})


class Product(NamedTuple):
    """A linear layer without its bias: run(x, weight) for any two tensors of their shapes."""

    x: Tensor
    weight: Tensor
    run: Callable[[Tensor, Tensor], Tensor]


def by_sign(call: Call, out: Tensor, bias: Tensor | None) -> Tensor:
    """The gamma or the alpha-beta rule: contributions count by their sign."""
    plan = call.plan
    x, weight, run = product_of(call)
    above = x * hold((x > 0).to(x.dtype))
    below, high, low = x - above, weight.clamp(min=0), weight.clamp(max=0)
    positive, negative = run(above, high) + run(below, low), run(above, low) + run(below, high)
    constant = torch.zeros_like(out) if bias is None else bias
    if plan.linear == "alpha-beta":
        total = hold(out)
        for factor, part, own in (
            (plan.alpha, positive, constant.clamp(min=0)),
            (1.0 - plan.alpha, negative, constant.clamp(max=0)),
        ):
            total = total + hold(factor * _over(out, part + own, plan.epsilon)) * (part - hold(part))
        return total
    gamma = plan.conv_gamma if call.name.startswith("conv") else plan.gamma
    up = hold((out > 0).to(out.dtype))
    signal = positive + negative + gamma * (up * positive + (1.0 - up) * negative)
    whole = signal + constant + gamma * (up * constant.clamp(min=0) + (1.0 - up) * constant.clamp(max=0))
    return hold(out) + hold(_over(out, whole, plan.epsilon)) * (signal - hold(signal))


def with_bias_shared(call: Call, out: Tensor, bias: Tensor) -> Tensor:
    """The output, whose bias is shared out among the inputs by |x_i W_ji|."""
    x, weight, run = product_of(call)
    return shared(out, bias, run(x * hold(x.sign()), weight.abs()))


def shared(out: Tensor, bias: Tensor, sizes: Tensor) -> Tensor:
    """The output, with the gradient of b_j sizes_j / sizes_j at the inputs of `sizes` in place of a constant's."""
    return out + hold(ratio(bias, sizes.detach())) * (sizes - hold(sizes))


def with_bias_placed(call: Call, out: Tensor, bias: Tensor) -> Tensor:
    """The output, whose bias belongs to the positions at which it is added; elsewhere (a pooled row) it keeps its
    share.
    """
    shares = call.mode.shares_of_positions(out)
    if shares is None or out.dim() not in (2, 3):
        return out
    by_position = shares.flatten() if out.dim() == 2 else shares
    if out.shape[:-1] != by_position.shape:
        return out
    return out + bias * (by_position - hold(by_position))[..., None]


def norm_sizes(x: Tensor, dims: tuple[int, ...], weight: Tensor | None, eps: float, *, centered: bool) -> Tensor:
    """sum_k |M_jk x_k| of a norm y = M x + b whose standard deviation is a constant: M_jk = (delta_jk - 1/D) w_j / std,
    without the 1/D where it does not centre.
    """
    values = x.detach() - x.detach().mean(dims, keepdim=True) if centered else x.detach()
    inverse = hold(torch.rsqrt(values.square().mean(dims, keepdim=True) + eps))
    size = x * hold(x.sign())
    if centered:
        width = values[(0,) * (x.dim() - len(dims))].numel()
        size = size * (1.0 - 2.0 / width) + size.mean(dims, keepdim=True)
    return size * inverse if weight is None else size * inverse * weight.abs()


def _over(out: Tensor, whole: Tensor, epsilon: float) -> Tensor:
    """out / (whole + epsilon sign(whole)), and 0 over 0."""
    return ratio(out, torch.where(whole < 0, whole - epsilon, whole + epsilon))


def product_of(call: Call) -> Product:
    """The activation of a linear layer, the constant that it is multiplied by, and how to multiply others like them."""
    args, kwargs = list(call.args), dict(call.kwargs)
    for key in ("weight", "bias"):
        if len(args) < 3 and key in kwargs:
            args.append(kwargs.pop(key))
    first = 1 if call.name.startswith(("add", "badd")) else 0
    places = (first, first + 1) if args[first].requires_grad else (first + 1, first)
    x, weight = (args[place] for place in places)
    if first:
        args[0] = torch.zeros((), dtype=weight.dtype, device=weight.device)
    elif call.name not in MULTIPLIES and len(args) > 2:
        args[2] = None

    def run(left: Tensor, right: Tensor) -> Tensor:
        args[places[0]], args[places[1]] = left, right
        found: Tensor = call.function(*args, **kwargs)
        return found

    return Product(x, weight, run)

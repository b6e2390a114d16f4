"""The local changes to a backward pass from which every rule is built.

In the gradient-times-input form the relevance of a tensor is the tensor times its modified gradient,
so a rule is a factor on the gradient of one operation.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from looprop.propagation.surrogate import surrogate_in_force


def ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """numerator / denominator, and 0 where the denominator is 0."""
    return (numerator / denominator).masked_fill_(denominator == 0, 0.0)


def epsilon_factor(z: Tensor, epsilon: float, *, shares: int = 1, value: Tensor | None = None) -> Tensor:
    """value / (shares * z + epsilon * sign(z)), sign(0) = +1: what the epsilon rule puts on a gradient.

    `value` is the output whose relevance is passed on; it is z itself unless a bias was left out of z.
    """
    sign = torch.where(z >= 0, 1.0, -1.0).to(z.dtype)
    # A masked score is infinite and takes no part.
    return ratio(z if value is None else value, shares * z + epsilon * sign).masked_fill_(z.isinf(), 0.0)


class _ScaleGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.factor, None


class _WeighGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: Tensor) -> Tensor:
        ctx.save_for_backward(factor)
        return x.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (factor,) = ctx.saved_tensors
        return gradient * factor, None


class _IdentityRule(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, value: Tensor) -> Tensor:
        ctx.save_for_backward(x, value)
        return value.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        x, value = ctx.saved_tensors
        return gradient * ratio(value, x), None


class _WholeIdentityRule(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, value: Tensor) -> Tensor:
        ctx.save_for_backward(ratio(value, x))
        return value.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (factor,) = ctx.saved_tensors
        return gradient * factor, None


class _ConstantStdNorm(torch.autograd.Function):
    """Layer norm whose backward holds the standard deviation constant: g_x = (w g - mean(w g)) / std."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, shape: list[int], weight: Tensor | None, bias: Tensor | None, eps: float, centered: bool
    ) -> Tensor:
        if centered:
            out, _, inverse_std = torch.native_layer_norm(x, shape, weight, bias, eps)
        else:
            dims = tuple(range(-len(shape), 0))
            inverse_std = torch.rsqrt(x.pow(2).mean(dims, keepdim=True) + eps)
            out = x * inverse_std
            out = out if weight is None else out * weight
        ctx.save_for_backward(inverse_std, weight)
        ctx.dims, ctx.centered = tuple(range(-len(shape), 0)), centered
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        inverse_std, weight = ctx.saved_tensors
        gradient = gradient * inverse_std if weight is None else gradient * weight * inverse_std
        if ctx.centered:
            gradient = gradient - gradient.mean(ctx.dims, keepdim=True)
        return gradient, None, None, None, None, None


class _SoftmaxAtTemperature(torch.autograd.Function):
    """softmax(z) with the gradient of T softmax(z / T): g_z = s (g - sum s g),  s = softmax(z / T)."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, dim: int, temperature: float) -> Tensor:
        ctx.save_for_backward(z)
        ctx.dim, ctx.temperature = dim, temperature
        return torch.softmax(z, dim)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (z,) = ctx.saved_tensors
        softer = torch.softmax(z / ctx.temperature, ctx.dim)
        return softer * (gradient - (softer * gradient).sum(ctx.dim, keepdim=True)), None, None


def hold(x: Tensor) -> Tensor:
    """x as a constant: nothing goes back to it."""
    surrogate = surrogate_in_force()
    return x.detach() if surrogate is None else surrogate.held(x)


def scale_gradient(x: Tensor, factor: float) -> Tensor:
    """x, whose gradient is multiplied by a number on the way back."""
    if (surrogate := surrogate_in_force()) is not None:
        return surrogate.line(x, x, factor)
    return _ScaleGradient.apply(x, factor)  # type: ignore[no-any-return,no-untyped-call]


def weigh_gradient(x: Tensor, factor: Tensor) -> Tensor:
    """x, whose gradient is multiplied by a tensor of its shape on the way back."""
    if (surrogate := surrogate_in_force()) is not None:
        return surrogate.line(x, x, factor)
    return _WeighGradient.apply(x, factor)  # type: ignore[no-any-return,no-untyped-call]


def identity_rule(x: Tensor, value: Tensor, *, whole: bool = False) -> Tensor:
    """value = f(x) for a pointwise f, with gradient value / x: the relevance of the output goes to the input.

    whole: f is known to end here, so that value / x is all that has to be kept; else it is formed on the way back, if
        at all.
    """
    if (surrogate := surrogate_in_force()) is not None:
        return surrogate.line(x, value, ratio(value, x.detach()))
    function = _WholeIdentityRule if whole else _IdentityRule
    return function.apply(x, value)  # type: ignore[no-any-return,no-untyped-call]


def constant_std_norm(
    x: Tensor, shape: list[int], weight: Tensor | None, bias: Tensor | None, eps: float, *, centered: bool
) -> Tensor:
    """Layer norm (centered) or RMS norm with the standard deviation as a constant in the backward pass."""
    if (surrogate := surrogate_in_force()) is not None:
        dims = tuple(range(-len(shape), 0))
        x = x - x.mean(dims, keepdim=True) if centered else x
        out = x * surrogate.held(torch.rsqrt(x.square().mean(dims, keepdim=True) + eps))
        out = out if weight is None else out * weight
        return out if bias is None else out + bias
    return _ConstantStdNorm.apply(x, shape, weight, bias, eps, centered)  # type: ignore[no-any-return,no-untyped-call]


def softmax_at_temperature(z: Tensor, dim: int, temperature: float) -> Tensor:
    """softmax(z), with the gradient that it has at a temperature, T softmax(z / T): at 1 its own."""
    if temperature == 1.0:
        return torch.softmax(z, dim)
    if (surrogate := surrogate_in_force()) is not None:
        softer = temperature * torch.softmax(z / temperature, dim)
        return surrogate.held(torch.softmax(z, dim)) + (softer - surrogate.held(softer))
    return _SoftmaxAtTemperature.apply(z, dim, temperature)  # type: ignore[no-any-return,no-untyped-call]

"""Chains of pointwise operations: a pointwise expression of one tensor is one activation, whoever wrote it out.

`x + 3` can be read in two ways. Where it ends there, it is a sum whose constant keeps its share. Where it goes on and
meets x again, as in `x * relu6(x + 3) / 6`, the whole is one pointwise function of x. So such a tensor has an origin,
by the first reading, and a root, by the second.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from looprop.propagation.call import trace_known

if TYPE_CHECKING:
    from looprop.propagation.call import Call


class Chain(NamedTuple):
    """A pointwise function of one tensor, its origin, with what it is at 0; by the other reading, of its root."""

    origin: Tensor
    at_zero: float
    root: Tensor | None = None
    at_root_zero: float = 0.0


def origin(tensor: Tensor) -> Tensor:
    """The tensor of which this one is a pointwise function."""
    found = trace_known(tensor).origin
    return tensor if found is None else found


def root(tensor: Tensor) -> Tensor:
    """The same, with numbers that were added on the way as part of the function."""
    found = trace_known(tensor).root
    return origin(tensor) if found is None else found


def common(call: Call, behind: Callable[[Tensor], Tensor]) -> Tensor | None:
    """The tensor of which all of a call's activations are pointwise functions, beside plain numbers."""
    first = behind(call.activations[0])
    for value in (*call.args, *call.kwargs.values()):
        if not isinstance(value, Tensor):
            continue
        if value.requires_grad:
            if behind(value) is not first or value.shape != first.shape:
                return None
        elif value.dim() > first.dim() or (value.numel() != 1 and call.name != "prelu"):
            return None  # but slopes do not move f(0) = 0, whatever their shape
    return first


def one_activation(call: Call) -> bool:
    """Whether a call is part of a pointwise expression of one tensor, by either reading."""
    return common(call, origin) is not None or (_rooted(call) and common(call, root) is not None)


def goes_on(call: Call) -> bool:
    """Whether a sum is part of a pointwise expression, rather than a sum of terms of which each stands for itself."""
    traces = [trace_known(t) for t in call.activations]
    if common(call, origin) is not None:
        return not all(t.linear for t in traces)
    return _rooted(call) and any(t.at_zero != 0.0 for t in traces) and common(call, root) is not None


def extended(call: Call, *, vanishes: bool = False) -> Chain:
    """The chain that ends in this call; vanishes: f(0) = 0 for the operation itself."""
    behind = common(call, origin)
    whole = common(call, root) if _rooted(call) else None
    if behind is None:
        assert whole is not None
        return Chain(whole, _value(call, _at_root_zero))
    settled = vanishes and trace_known(call.activations[0]).at_zero == 0.0
    at_zero = 0.0 if settled else _value(call, _at_zero)
    if whole is None:
        return Chain(behind, at_zero)
    at_root_zero = _value(call, _at_root_zero)
    # As one function of the root it may be what the identity rule can take: relu6(x + 3) - 3.
    return Chain(whole, 0.0) if at_zero != 0.0 and at_root_zero == 0.0 else Chain(behind, at_zero, whole, at_root_zero)


def summed(call: Call) -> tuple[Tensor, float] | None:
    """The root of a plain sum of one tensor and numbers, and what the sum is where the root is 0."""
    constants = len(call.args) > len(call.activations)
    if not constants and not _rooted(call):
        return None
    whole = common(call, root)
    return None if whole is None else (whole, _value(call, _at_root_zero))


def _rooted(call: Call) -> bool:
    return any(trace_known(t).root is not None for t in call.activations)


def _value(call: Call, at: Callable[[Tensor], float]) -> float:
    def taken(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if not value.requires_grad:
            return value.double().reshape(()) if value.numel() == 1 else value.double()
        return torch.tensor(at(value), dtype=torch.float64, device=value.device)

    if call.name == "prelu":  # elsewhere than at 0 its slopes count, and there may be many
        return 0.0 if at(call.activations[0]) == 0.0 else math.nan
    return float(call.run(*map(taken, call.args)))


def _at_zero(tensor: Tensor) -> float:
    return trace_known(tensor).at_zero


def _at_root_zero(tensor: Tensor) -> float:
    trace = trace_known(tensor)
    return trace.at_zero if trace.root is None else trace.at_root_zero

"""Rewrites of linear layers, and how their weights are read.

GPT-2 keeps the weight of a linear layer as (in, out), everybody else as (out, in): `matrix_of` gives the latter for
both, as a view, so that what is edited in it is edited in the weight.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from looprop.auditing.rewrites.base import Model, Places, Rewrite, well_conditioned
from looprop.auditing.rewrites.changes import Changes
from looprop.auditing.rewrites.observing import is_conv1d, is_linear

Forward = Callable[[Tensor], Tensor]


def matrix_of(linear: nn.Module, changes: Changes | None = None) -> Tensor:
    """The weight of a linear layer as (out, in): that of an editable copy if changes are given."""
    if changes is not None:
        data = changes.edit(linear, "weight")
    else:
        weight = linear._parameters["weight"]
        assert weight is not None
        data = weight.detach()
    return data.T if is_conv1d(linear) else data


def bias_of(linear: nn.Module) -> Tensor | None:
    """The bias of a linear layer."""
    bias = linear._parameters.get("bias")
    return None if bias is None else bias.detach()


class LinearSplit(Rewrite):
    """W x + b = A (B x) + b with W = A B, the square and invertible factor on the narrower side."""

    name = "linear-split"
    summary = "every linear layer as a product of two"

    def apply(self, model: Model, changes: Changes) -> Places:
        places, generator = Places(), model.generator()
        for module, name in model.observed.names.items():
            if not is_linear(module):
                continue
            if not model.observed.calls[module]:
                places.leave(name, "its weight is used without calling it")
                continue
            changes.set_forward(module, _split(matrix_of(module), bias_of(module), generator))
            places.changed.append(name)
        for module, name in model.observed.names.items():
            if isinstance(module, nn.MultiheadAttention):
                places.leave(name, "the projections of nn.MultiheadAttention are not called as layers")
        return places


def _split(weight: Tensor, bias: Tensor | None, generator: torch.Generator) -> Forward:
    outputs, inputs = weight.shape
    turn, back = well_conditioned(min(outputs, inputs), generator, weight)
    first, second = (turn, weight @ back) if inputs <= outputs else (back @ weight, turn)

    def forward(x: Tensor) -> Tensor:
        return nn.functional.linear(nn.functional.linear(x, first), second, bias)

    return forward


class LinearMerged(Rewrite):
    """W2 (W1 x + b1) + b2 = (W2 W1) x + (W2 b1 + b2), where nothing else reads the first layer's output."""

    name = "linear-merged"
    summary = "two linear layers in a row as one"

    def apply(self, model: Model, changes: Changes) -> Places:
        places, taken = Places(), set[nn.Module]()
        for first in model.observed.uses:
            readers = model.observed.readers(first).modules if is_linear(first) else ()
            if len(readers) != 1 or first in taken or readers[0] in taken:
                continue
            (second,) = readers
            changes.set_forward(first, _identity)
            changes.set_forward(second, _merged(first, second))
            taken |= {first, second}
            places.changed.append(f"{model.observed.names[first]} and {model.observed.names[second]}")
        return places


def _identity(x: Tensor) -> Tensor:
    return x


def _merged(first: nn.Module, second: nn.Module) -> Forward:
    weight, bias, inner = matrix_of(second) @ matrix_of(first), bias_of(second), bias_of(first)
    if inner is not None:
        moved = matrix_of(second) @ inner
        bias = moved if bias is None else bias + moved

    def forward(x: Tensor) -> Tensor:
        return nn.functional.linear(x, weight, bias)

    return forward

"""Rewrites of linear layers, of the biases and norms that can move into one, and of ReLU networks.

GPT-2 keeps the weight of a linear layer as (in, out), everybody else as (out, in): `matrix_of` gives the latter for
both, as a view, so that what is edited in it is edited in the weight.

Layer and RMS norms depend on the input, so that only what they do afterwards, gain and bias, can be moved. A batch norm
that no longer trains is a linear map as a whole, and can go into the layer before it. The last two rewrites rest on
a ReLU(x) = ReLU(a x) and ReLU(ReLU(x) - c) = ReLU(x - c), both for a, c > 0.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from looprop.auditing.rewrites.base import Changes, Model, Places, Rewrite, well_conditioned
from looprop.auditing.rewrites.observing import Observation, is_conv1d, is_linear, is_norm
from looprop.auditing.rewrites.structures import AttentionBlock, attention_blocks

Forward = Callable[[Tensor], Tensor]


def matrix_of(linear: nn.Module, changes: Changes | None = None) -> Tensor:
    """The weight of a linear layer as (out, in): that of an editable copy if changes are given."""
    data = linear.get_parameter("weight").detach() if changes is None else changes.edit(linear, "weight")
    return data.T if is_conv1d(linear) else data


def bias_of(linear: nn.Module) -> Tensor | None:
    """The bias of a linear layer."""
    bias = linear._parameters.get("bias")
    return None if bias is None else bias.detach()


def linear_map(weight: Tensor, bias: Tensor | None) -> Forward:
    """The forward function x -> W x + b."""
    return lambda x: nn.functional.linear(x, weight, bias)


class LinearSplit(Rewrite):
    """W x + b = A (B x) + b with W = A B, the square and invertible factor on the narrower side."""

    name = "linear-split"

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

    inner, outer = linear_map(first, None), linear_map(second, bias)
    return lambda x: outer(inner(x))


class LinearMerged(Rewrite):
    """W2 (W1 x + b1) + b2 = (W2 W1) x + (W2 b1 + b2), where nothing else reads the first layer's output."""

    name = "linear-merged"

    def apply(self, model: Model, changes: Changes) -> Places:
        places, taken = Places(), set[nn.Module]()
        for first in model.observed.uses:
            readers = model.observed.readers(first).modules if is_linear(first) else ()
            if len(readers) != 1 or first in taken or readers[0] in taken:
                continue
            (second,) = readers
            changes.set_forward(first, lambda x: x)
            changes.set_forward(second, _merged(first, second))
            taken |= {first, second}
            places.changed.append(f"{model.observed.names[first]} and {model.observed.names[second]}")
        return places


def _merged(first: nn.Module, second: nn.Module) -> Forward:
    weight, bias, inner = matrix_of(second) @ matrix_of(first), bias_of(second), bias_of(first)
    if inner is not None:
        moved = matrix_of(second) @ inner
        bias = moved if bias is None else bias + moved
    return linear_map(weight, bias)


class BiasMoved(Rewrite):
    """W2 (y + b) + b2 = W2 y + (b2 + W2 b): biases of values through attention, of norms, of linear layers.

    Attention passes a bias on as it is, since the weights of a row add up to one.
    """

    name = "bias-moved"

    def apply(self, model: Model, changes: Changes) -> Places:
        places = Places()
        for block in attention_blocks(model, places):
            if block.value.has_bias:
                _move_values(block, places, changes)
        for source in list(model.observed.uses):
            if source._parameters.get("bias") is not None and (is_norm(source) or is_linear(source)):
                _move_bias(source, model.observed, places, changes)
        return places


def _move_values(block: AttentionBlock, places: Places, changes: Changes) -> None:
    if not block.output.has_bias:
        places.leave(block.name, "the output projection has no bias to take that of the values")
        return
    values, output = block.value.vector(changes), block.output.matrix(changes)
    of_heads = [values[block.of_head(block.value, head // block.groups)] for head in range(block.heads)]
    block.output.vector(changes).add_(output[:, block.output.index] @ torch.cat(of_heads))
    values[block.value.index] = 0.0
    places.changed.append(f"{block.name}: values")


def _move_bias(source: nn.Module, observed: Observation, places: Places, changes: Changes) -> None:
    readers = observed.readers(source)
    if readers.reason:
        # That most linear layers are read by something else goes without saying.
        if is_norm(source):
            places.leave(observed.names[source], readers.reason)
        return
    if any(reader._parameters.get("bias") is None for reader in readers.modules):
        places.leave(observed.names[source], "a linear layer that reads it has no bias to take its own")
        return
    moved = changes.edit(source, "bias")
    for reader in readers.modules:
        changes.edit(reader, "bias").add_(matrix_of(reader, changes) @ moved)
    moved.zero_()
    places.changed.append(observed.names[source])


_Layer = nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear


def find_gain(norm: nn.Module, changes: Changes) -> tuple[Tensor, float]:
    """Find the factor that a norm puts on each entry, and the weight that stands for a factor of 1.

    Most norms multiply by their weight w, some (Gemma) by 1 + w: those still pass something on at w = 0, which is tried
    on an editable copy of the weight.
    """
    weight = changes.edit(norm, "weight")
    stored = weight.clone()
    weight.zero_()
    with torch.no_grad():
        out = norm(torch.linspace(-1.0, 2.0, len(weight), dtype=weight.dtype, device=weight.device)[None])
    bias = norm._parameters.get("bias")
    silent = bool((out - (0.0 if bias is None else bias) == 0).all())
    weight.copy_(stored)
    return (stored, 1.0) if silent else (1.0 + stored, 0.0)


class NormFolded(Rewrite):
    """W (g * x + b) = (W diag(g)) (x + b / g), where only linear layers read the norm."""

    name = "norm-folded"

    def apply(self, model: Model, changes: Changes) -> Places:
        places, observed = Places(), model.observed
        for norm in [source for source in observed.uses if is_norm(source)]:
            name, readers = observed.names[norm], observed.readers(norm)
            if readers.reason:
                places.leave(name, readers.reason)
                continue
            gain, neutral = find_gain(norm, changes)
            if bool((gain == 0).any()):
                places.leave(name, "its gain is zero somewhere")
                continue
            changes.edit(norm, "weight").fill_(neutral)
            if bias_of(norm) is not None:
                changes.edit(norm, "bias").div_(gain)
            for reader in readers.modules:
                matrix_of(reader, changes).mul_(gain)
            places.changed.append(name)
        return places


class NormSplit(Rewrite):
    """g * x + b = diag(g) x + b: a norm without gain and bias, followed by a linear layer."""

    name = "norm-split"

    def apply(self, model: Model, changes: Changes) -> Places:
        places = Places()
        for norm in [source for source in model.observed.uses if is_norm(source)]:
            gain, neutral = find_gain(norm, changes)
            bias = None
            if bias_of(norm) is not None:
                kept = changes.edit(norm, "bias")
                bias = kept.clone()
                kept.zero_()
            changes.edit(norm, "weight").fill_(neutral)
            _follow(norm, linear_map(torch.diag(gain), bias), changes)
            places.changed.append(model.observed.names[norm])
        return places


def _follow(norm: nn.Module, after: Forward, changes: Changes) -> None:
    before = norm.forward
    changes.set_forward(norm, lambda x: after(before(x)))


class BatchNormFolded(Rewrite):
    """s (W x + b - m) + t = (s W) x + (s (b - m) + t), s = gain / sqrt(variance + eps), with the stored statistics."""

    name = "batchnorm-folded"

    def apply(self, model: Model, changes: Changes) -> Places:
        places, observed = Places(), model.observed
        folded: set[nn.Module] = set()
        for source in list(observed.uses):
            readers = observed.readers(source, by="batch_norm").modules
            if len(readers) != 1 or not isinstance(source, _Layer):
                continue
            (norm,) = readers
            if isinstance(norm, _BatchNorm) and norm.running_mean is not None and norm.running_var is not None:
                changes.set_forward(source, _folded(source, norm))
                changes.set_forward(norm, lambda x: x)
                folded.add(norm)
                places.changed.append(observed.names[norm])
        for module, name in observed.names.items():
            if isinstance(module, _BatchNorm) and module not in folded and observed.calls[module]:
                places.leave(name, "no convolution or linear layer stands alone before it")
        return places


def _folded(layer: _Layer, norm: _BatchNorm) -> Forward:
    """The forward function of a layer with the batch norm after it: scaled outputs and another bias."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = torch.rsqrt(norm.running_var + norm.eps)
    scale = scale if norm.weight is None else scale * norm.weight.detach()
    bias = -norm.running_mean if layer.bias is None else layer.bias.detach() - norm.running_mean
    bias = scale * bias if norm.bias is None else scale * bias + norm.bias.detach()
    weight = layer.weight.detach() * scale.reshape(-1, *[1] * (layer.weight.dim() - 1))
    if isinstance(layer, nn.Linear):
        return linear_map(weight, bias)
    return lambda x: layer._conv_forward(x, weight, bias)


class ReluRescaled(Rewrite):
    """W2 ReLU(W1 x + b1) = (W2 / a) ReLU(a (W1 x + b1)) for a > 0, another a for every unit."""

    name = "relu-rescaled"

    def apply(self, model: Model, changes: Changes) -> Places:
        places, generator = Places(), model.generator()
        for first in [source for source in model.observed.uses if is_linear(source)]:
            readers = model.observed.readers(first, through="relu")
            if readers.reason:
                continue
            matrix = matrix_of(first, changes)
            factors = torch.exp2(4 * torch.rand(len(matrix), generator=generator, dtype=torch.float64) - 2).to(matrix)
            matrix.mul_(factors[:, None])
            if bias_of(first) is not None:
                changes.edit(first, "bias").mul_(factors)
            for reader in readers.modules:
                matrix_of(reader, changes).div_(factors)
            places.changed.append(model.observed.names[first])
        return places


class ReluRearranged(Rewrite):
    """ReLU(w ReLU(u) - c - ...) = ReLU(w ReLU(u - c / w) - ...) for w, c > 0, if everything else is never positive.

    The counterexample of Sundararajan et al. 2017 (appendix B): where w ReLU(u) <= c, both sides are zero. Done for
    units of `Linear, ReLU, Linear, ReLU` in an nn.Sequential; the shifted unit is a copy, as others may read the
    original.
    """

    name = "relu-rearranged"

    def apply(self, model: Model, changes: Changes) -> Places:
        places = Places()
        for module, name in model.observed.names.items():
            if not isinstance(module, nn.Sequential):
                continue
            for start, first, second in _pairs(module):
                for unit in _shift_units(first, second, changes):
                    places.changed.append(f"{name or 'model'}.{start + 2}, unit {unit}")
        return places


def _pairs(sequence: nn.Sequential) -> Iterator[tuple[int, nn.Linear, nn.Linear]]:
    """The linear layers of every `Linear, ReLU, Linear, ReLU`, and where it starts."""
    parts = list(sequence)
    for start in range(len(parts) - 3):
        first, relu, second, last = parts[start : start + 4]
        if not (isinstance(first, nn.Linear) and isinstance(second, nn.Linear) and second.bias is not None):
            continue
        if isinstance(relu, nn.ReLU) and isinstance(last, nn.ReLU):
            yield start, first, second


def _shift_units(first: nn.Linear, second: nn.Linear, changes: Changes) -> list[int]:
    """Rearrange the units of the second layer that have a negative bias and one positive weight, and say which."""
    weight, bias = second.weight.detach(), second.bias.detach()
    units = [j for j in range(len(weight)) if bias[j] < 0 and int((weight[j] > 0).sum()) == 1]
    if not units:
        return []
    speakers = [int(weight[j].argmax()) for j in units]  # the unit of the first layer that speaks for each
    inner = first.weight.detach()
    inner_bias = first.bias.detach() if first.bias is not None else inner.new_zeros(len(inner))
    slopes = torch.stack([weight[j, p] for j, p in zip(units, speakers, strict=True)])
    # Each unit gets a copy of the one that speaks for it, with the bias moved inside.
    copies = weight.new_zeros(len(weight), len(units))
    kept, outer_bias = weight.clone(), bias.clone()
    for column, (j, p) in enumerate(zip(units, speakers, strict=True)):
        copies[j, column], kept[j, p], outer_bias[j] = weight[j, p], 0.0, 0.0
    shifted: Tensor = inner_bias[speakers] + bias[units] / slopes
    wide, wide_bias = torch.cat([inner, inner[speakers]]), torch.cat([inner_bias, shifted])
    if first.bias is None:
        changes.set_forward(first, linear_map(wide, wide_bias))
    else:
        changes.replace(first, "weight", wide)
        changes.replace(first, "bias", wide_bias)
    changes.replace(second, "weight", torch.cat([kept, copies], 1))
    changes.replace(second, "bias", outer_bias)
    return units

"""Rewrites of norms: their gain and bias in another place."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from looprop.auditing.rewrites.base import Model, Places, Rewrite
from looprop.auditing.rewrites.changes import Changes
from looprop.auditing.rewrites.linears import bias_of, matrix_of
from looprop.auditing.rewrites.observing import is_norm


def effective_gain(norm: nn.Module, changes: Changes) -> tuple[Tensor, float]:
    """The factor that a norm puts on each entry, and the stored value that stands for a factor of 1.

    Most norms multiply by their weight w, some (Gemma) by 1 + w: with w = 0 those still pass something on.
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
    summary = "the gain of a norm folded into the linear layers that read it"

    def apply(self, model: Model, changes: Changes) -> Places:
        places, observed = Places(), model.observed
        for norm in [source for source in observed.uses if is_norm(source)]:
            name, readers = observed.names[norm], observed.readers(norm)
            if isinstance(readers, str):
                places.leave(name, readers)
                continue
            gain, neutral = effective_gain(norm, changes)
            if bool((gain == 0).any()):
                places.leave(name, "its gain is zero somewhere")
                continue
            changes.edit(norm, "weight").fill_(neutral)
            if bias_of(norm) is not None:
                changes.edit(norm, "bias").div_(gain)
            for reader in readers:
                matrix_of(reader, changes).mul_(gain)
            places.changed.append(name)
        return places


class NormSplit(Rewrite):
    """g * x + b = diag(g) x + b: a norm without gain and bias, followed by a linear layer."""

    name = "norm-split"
    summary = "gain and bias of a norm as a linear layer of their own"

    def apply(self, model: Model, changes: Changes) -> Places:
        places = Places()
        for norm in [source for source in model.observed.uses if is_norm(source)]:
            gain, neutral = effective_gain(norm, changes)
            bias = None
            if bias_of(norm) is not None:
                kept = changes.edit(norm, "bias")
                bias = kept.clone()
                kept.zero_()
            changes.edit(norm, "weight").fill_(neutral)
            _follow(norm, torch.diag(gain), bias, changes)
            places.changed.append(model.observed.names[norm])
        return places


def _follow(norm: nn.Module, weight: Tensor, bias: Tensor | None, changes: Changes) -> None:
    before = norm.forward

    def forward(x: Tensor) -> Tensor:
        return nn.functional.linear(before(x), weight, bias)

    changes.set_forward(norm, forward)


class BatchNormFolded(Rewrite):
    """s (W x + b - m) + t = (s W) x + (s (b - m) + t), s = gain / sqrt(variance + eps), with the stored statistics."""

    name = "batchnorm-folded"
    summary = "batch norm folded into the convolution or linear layer before it"

    def apply(self, model: Model, changes: Changes) -> Places:
        places, observed = Places(), model.observed
        done: set[nn.Module] = set()
        for source in list(observed.uses):
            readers = observed.readers(source, by="batch_norm")
            if (
                isinstance(readers, str)
                or len(readers) != 1
                or not isinstance(source, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear)
            ):
                continue
            (norm,) = readers
            if (
                not isinstance(norm, nn.modules.batchnorm._BatchNorm)
                or norm.running_mean is None
                or norm.running_var is None
            ):
                continue
            scale = torch.rsqrt(norm.running_var + norm.eps)
            scale = scale if norm.weight is None else scale * norm.weight.detach()
            shift = -norm.running_mean if source.bias is None else source.bias.detach() - norm.running_mean
            shift = scale * shift if norm.bias is None else scale * shift + norm.bias.detach()
            changes.set_forward(source, _with(source, scale, shift))
            changes.set_forward(norm, lambda x: x)
            done.add(norm)
            places.changed.append(observed.names[norm])
        for module, name in observed.names.items():
            if isinstance(module, nn.modules.batchnorm._BatchNorm) and module not in done and observed.calls[module]:
                places.leave(name, "no convolution or linear layer stands alone before it")
        return places


def _with(
    layer: nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear, scale: Tensor, bias: Tensor
) -> Callable[[Tensor], Tensor]:
    """A layer whose outputs are scaled, and another bias."""
    weight = layer.weight.detach() * scale.reshape(-1, *[1] * (layer.weight.dim() - 1))

    def forward(x: Tensor) -> Tensor:
        return (
            nn.functional.linear(x, weight, bias)
            if isinstance(layer, nn.Linear)
            else layer._conv_forward(x, weight, bias)
        )

    return forward

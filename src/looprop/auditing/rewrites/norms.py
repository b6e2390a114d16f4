"""Rewrites of norms: their gain and bias in another place.

Layer and RMS norms depend on the input, so that only what they do afterwards, gain and bias, can be moved. A batch norm
that no longer trains is a linear map as a whole, and can go into the layer before it.
"""

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from looprop.auditing.catalogue import CATALOGUE
from looprop.auditing.rewrites.base import Model, Places, Rewrite
from looprop.auditing.rewrites.changes import Changes
from looprop.auditing.rewrites.linears import Forward, bias_of, linear_map, matrix_of
from looprop.auditing.rewrites.observing import is_norm

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
    summary = CATALOGUE[name].summary

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
    summary = CATALOGUE[name].summary

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
    summary = CATALOGUE[name].summary

    def apply(self, model: Model, changes: Changes) -> Places:
        places, observed = Places(), model.observed
        folded: set[nn.Module] = set()
        for source in list(observed.uses):
            readers = observed.readers(source, by="batch_norm").modules
            if len(readers) != 1 or not isinstance(source, _Layer):
                continue
            (norm,) = readers
            if isinstance(norm, _BatchNorm) and norm.running_mean is not None and norm.running_var is not None:
                changes.set_forward(source, _with(source, *_scale_and_bias(source, norm)))
                changes.set_forward(norm, lambda x: x)
                folded.add(norm)
                places.changed.append(observed.names[norm])
        for module, name in observed.names.items():
            if isinstance(module, _BatchNorm) and module not in folded and observed.calls[module]:
                places.leave(name, "no convolution or linear layer stands alone before it")
        return places


def _scale_and_bias(layer: _Layer, norm: _BatchNorm) -> tuple[Tensor, Tensor]:
    """The factor for each output of a layer, and its new bias, that replace the batch norm after it."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = torch.rsqrt(norm.running_var + norm.eps)
    scale = scale if norm.weight is None else scale * norm.weight.detach()
    bias = -norm.running_mean if layer.bias is None else layer.bias.detach() - norm.running_mean
    return scale, scale * bias if norm.bias is None else scale * bias + norm.bias.detach()


def _with(layer: _Layer, scale: Tensor, bias: Tensor) -> Forward:
    """The forward function of a layer with scaled outputs and another bias."""
    weight = layer.weight.detach() * scale.reshape(-1, *[1] * (layer.weight.dim() - 1))
    if isinstance(layer, nn.Linear):
        return linear_map(weight, bias)
    return lambda x: layer._conv_forward(x, weight, bias)

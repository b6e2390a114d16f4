"""Rewrites of biases: where a constant is added, as long as the sum stays.

A bias can go along through whatever passes constants on: through a linear layer as W b, through attention as it is,
since the weights of a row add up to one.
"""

import torch
from torch import nn

from looprop.auditing.rewrites.base import Model, Places, Rewrite
from looprop.auditing.rewrites.changes import Changes
from looprop.auditing.rewrites.heads import position_terms
from looprop.auditing.rewrites.linears import matrix_of
from looprop.auditing.rewrites.observing import Observation, is_linear, is_norm
from looprop.auditing.rewrites.structures import AttentionBlock, attention_blocks


class KeyBiasShifted(Rewrite):
    """k -> k + c for all keys: every score of a row grows by q . c, and softmax takes no notice."""

    name = "key-bias-shifted"
    summary = "a constant added to all keys, which softmax does not see"

    def apply(self, model: Model, changes: Changes) -> Places:
        places, generator = Places(), model.generator()
        for block in attention_blocks(model, places):
            if not block.key.has_bias:
                places.leave(block.name, "its keys have no bias")
            elif block.rotary or block.normed:
                places.leave(
                    block.name, "keys are rotated or normalised after their bias, so that it is not the same for all"
                )
            elif position := position_terms(model, block):
                places.leave(block.name, position)
            else:
                bias = block.key.vector(changes)
                shift = torch.randn(len(block.key.index), generator=generator, dtype=torch.float64)
                bias[block.key.index] += shift.to(bias)
                places.changed.append(block.name)
        return places


class BiasMoved(Rewrite):
    """W2 (y + b) + b2 = W2 y + (b2 + W2 b): biases of values through attention, of norms, of linear layers."""

    name = "bias-moved"
    summary = "biases of values, norms and linear layers moved into the linear layer after them"

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

"""Rewrites inside the attention heads.

With grouped queries several heads of queries share one head of keys and values (`kv_heads` of them, `groups` query
heads for each): what keys or values get is drawn once per shared head, and every query head that reads it follows.
"""

import torch
from torch import Tensor

from looprop.auditing.rewrites.base import Model, Places, Rewrite, well_conditioned
from looprop.auditing.rewrites.changes import Changes
from looprop.auditing.rewrites.structures import AttentionBlock, Projection, attention_blocks


class QueryKeyRescaled(Rewrite):
    """q_h -> a_h q_h, k_h -> k_h / a_h: the scores q . k stay.

    One number a_h per head, so that rotary embeddings commute with it.
    """

    name = "qk-rescaled"
    summary = "queries times a, keys times 1 / a, another a for every head"

    def apply(self, model: Model, changes: Changes) -> Places:
        places, generator = Places(), model.generator()
        for block in attention_blocks(model, places):
            if block.normed:
                places.leave(block.name, "queries and keys are normalised, which takes their scale away")
                continue
            if position := position_terms(model, block):
                places.leave(block.name, position)
                continue
            factors = torch.exp2(4 * torch.rand(block.kv_heads, generator=generator, dtype=torch.float64) - 2)
            _scale(block.key, _per_row(1 / factors, block.size), changes)
            _scale(block.query, _per_row(factors.repeat_interleave(block.groups), block.size), changes)
            places.changed.append(block.name)
        return places


class ValueOutputTurned(Rewrite):
    """v_h -> M_h v_h, W_o,h -> W_o,h M_h^-1, M_h invertible: attention mixes positions, M_h the entries of each."""

    name = "vo-turned"
    summary = "values times an invertible matrix per head, the output projection times its inverse"

    def apply(self, model: Model, changes: Changes) -> Places:
        places, generator = Places(), model.generator()
        for block in attention_blocks(model, places):
            values, output = block.value.matrix(changes), block.output.matrix(changes)
            for head in range(block.kv_heads):
                turn, back = well_conditioned(block.size, generator, values)
                rows = block.of_head(block.value, head)
                values[rows] = turn @ values[rows]
                if block.value.has_bias:
                    bias = block.value.vector(changes)
                    bias[rows] = turn @ bias[rows]
                for reader in range(head * block.groups, (head + 1) * block.groups):
                    columns = block.of_head(block.output, reader)
                    output[:, columns] = output[:, columns] @ back
            places.changed.append(block.name)
        return places


class HeadsPermuted(Rewrite):
    """Heads in another order: rows of Q, K and V and columns of W_o permuted alike; whole groups of heads, where they
    share keys and values.
    """

    name = "heads-permuted"
    summary = "attention heads in another order"

    def apply(self, model: Model, changes: Changes) -> Places:
        places, generator = Places(), model.generator()
        for block in attention_blocks(model, places):
            if block.kv_heads < 2:
                places.leave(block.name, "one head of keys and values has no other order")
                continue
            if position := position_terms(model, block, shared=True):
                places.leave(block.name, position)
                continue
            order = _another_order(block.kv_heads, generator)
            grouped = (order[:, None] * block.groups + torch.arange(block.groups)).flatten()
            _permute(block.key, block, order, changes)
            _permute(block.value, block, order, changes)
            _permute(block.query, block, grouped, changes)
            _permute(block.output, block, grouped, changes)
            places.changed.append(block.name)
        return places


def position_terms(model: Model, block: AttentionBlock, *, shared: bool = False) -> str:
    """Why scores are not q . k alone, "" if they are: terms of relative positions.

    shared: also terms that the model adds to the scores of all its layers, one for each head.
    """
    terms = [name for name, _ in block.module.named_children() if name.startswith("pos_") and name.endswith("proj")]
    if shared:
        terms += [name for name in model.observed.names.values() if name.rpartition(".")[2].startswith("relative")]
    return f"its scores have terms of relative positions ({', '.join(terms)})" if terms else ""


def _another_order(count: int, generator: torch.Generator) -> Tensor:
    while True:
        order = torch.randperm(count, generator=generator)
        if not torch.equal(order, torch.arange(count)):
            return order


def _per_row(factors: Tensor, size: int) -> Tensor:
    return factors.repeat_interleave(size)


def _scale(projection: Projection, factors: Tensor, changes: Changes) -> None:
    matrix = projection.matrix(changes)
    factors = factors.to(matrix)
    matrix[projection.index] *= factors[:, None]
    if projection.has_bias:
        projection.vector(changes)[projection.index] *= factors


def _permute(projection: Projection, block: AttentionBlock, order: Tensor, changes: Changes) -> None:
    taken = torch.cat([block.of_head(projection, int(head)) for head in order])
    matrix = projection.matrix(changes)
    if projection.columns:
        matrix[:, projection.index] = matrix[:, taken].clone()
        return
    matrix[projection.index] = matrix[taken].clone()
    if projection.has_bias:
        bias = projection.vector(changes)
        bias[projection.index] = bias[taken].clone()

"""Rewrites inside the attention heads.

With grouped queries several heads of queries share one head of keys and values (`kv_heads` of them, `groups` query
heads for each): what keys or values get is drawn once per shared head, and every query head that reads it follows.
"""

import torch
from torch import Tensor

from looprop.auditing.rewrites.base import Changes, Model, well_conditioned
from looprop.auditing.rewrites.structures import AttentionBlock, BlockRewrite, Projection


class QueryKeyRescaled(BlockRewrite):
    """q_h -> a_h q_h, k_h -> k_h / a_h: the scores q . k stay.

    One number a_h per head, so that rotary embeddings commute with it.
    """

    name = "qk-rescaled"

    def obstacle(self, model: Model, block: AttentionBlock) -> str:
        if block.normed:
            return "queries and keys are normalised, which takes their scale away"
        return position_terms(model, block)

    def change(self, block: AttentionBlock, changes: Changes, generator: torch.Generator) -> None:
        factors = torch.exp2(4 * torch.rand(block.kv_heads, generator=generator, dtype=torch.float64) - 2)
        _scale(block.key, (1 / factors).repeat_interleave(block.size), changes)
        _scale(block.query, factors.repeat_interleave(block.groups * block.size), changes)


class ValueOutputTurned(BlockRewrite):
    """v_h -> M_h v_h, W_o,h -> W_o,h M_h^-1, M_h invertible: attention mixes positions, M_h the entries of each."""

    name = "vo-turned"

    def change(self, block: AttentionBlock, changes: Changes, generator: torch.Generator) -> None:
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


class HeadsPermuted(BlockRewrite):
    """Rows of Q, K and V and columns of W_o in another order of heads, or of groups that share keys and values."""

    name = "heads-permuted"

    def obstacle(self, model: Model, block: AttentionBlock) -> str:
        if block.kv_heads < 2:
            return "one head of keys and values has no other order"
        return position_terms(model, block, shared=True)

    def change(self, block: AttentionBlock, changes: Changes, generator: torch.Generator) -> None:
        same = order = torch.arange(block.kv_heads)
        while torch.equal(order, same):
            order = torch.randperm(block.kv_heads, generator=generator)
        grouped = (order[:, None] * block.groups + torch.arange(block.groups)).flatten()
        for projection in (block.key, block.value):
            _permute(projection, block, order, changes)
        for projection in (block.query, block.output):
            _permute(projection, block, grouped, changes)


class KeyBiasShifted(BlockRewrite):
    """k -> k + c for all keys: every score of a row grows by q . c, and softmax takes no notice."""

    name = "key-bias-shifted"

    def obstacle(self, model: Model, block: AttentionBlock) -> str:
        if not block.key.has_bias:
            return "its keys have no bias"
        if block.rotary or block.normed:
            return "keys are rotated or normalised after their bias, so that it is not the same for all"
        return position_terms(model, block)

    def change(self, block: AttentionBlock, changes: Changes, generator: torch.Generator) -> None:
        bias = block.key.vector(changes)
        shift = torch.randn(len(block.key.index), generator=generator, dtype=torch.float64)
        bias[block.key.index] += shift.to(bias)


def position_terms(model: Model, block: AttentionBlock, *, shared: bool = False) -> str:
    """The terms of relative positions that are added to the scores q . k, as a reason; "" if there are none.

    shared: also terms that the model adds to the scores of all its layers, one for each head.
    """
    terms = [name for name, _ in block.module.named_children() if name.startswith("pos_") and name.endswith("proj")]
    if shared:
        terms += [name for name in model.observed.names.values() if name.rpartition(".")[2].startswith("relative")]
    return f"its scores have terms of relative positions ({', '.join(terms)})" if terms else ""


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

"""Attention fused, written out, by einsum and by torch's own module."""

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attacks.programs.steps import Affine, Array, Attention
from attacks.programs.workshop import Workshop

INFINITE = float("-inf")


def attention(w: Workshop) -> int:
    """Projections, heads, a mask or not, and a projection of the output or not."""
    number = w.tensor()
    rows, width = w.shape_of(number)
    heads = int(w.pick([h for h in (1, 2) if width % h == 0]))
    queried = number
    if w.dice.integers(6) == 0:  # one query, as models that pool have it
        matrix = np.eye(width, rows * width)
        queried = w.add((number,), Affine((1, width), [matrix]), (1, width), "first row", lambda x: x[:, :1])
    query, key, value = w.linear(queried, width), w.linear(number, width), w.linear(number, width)
    bias, mask = _bias(w, heads, w.shape_of(queried)[0], rows)
    scale = 1 / math.sqrt(width // heads)
    spellings = _spellings(heads, scale, mask, bias)
    kind = Attention(heads, scale, bias)
    out = w.spelled((query, key, value), kind, w.shape_of(query), spellings)
    return w.linear(out, width) if w.dice.integers(2) else out


def _bias(w: Workshop, heads: int, queries: int, rows: int) -> tuple[Array, Tensor | None]:
    """What is added to the scores of each head, and the same as torch takes it."""
    name = w.pick(["none", "none", "causal", "padding", "positions", "both"])
    bias = np.zeros((heads, queries, rows))
    if name == "none":
        return bias, None
    if name in ("causal", "both"):
        late = np.arange(rows)[None, :] > np.arange(queries)[:, None] + rows - queries
        bias[:, late] = INFINITE
    if name == "padding" and rows > 1:
        bias[:, :, int(w.dice.integers(1, rows))] = INFINITE
    if name in ("positions", "both"):
        bias += w.numbers(heads, queries, rows, spread=0.5)
    return bias, torch.tensor(bias)


def _split(x: Tensor, heads: int) -> Tensor:
    return x.view(*x.shape[:2], heads, -1).transpose(1, 2)  # (B, H, T, d)


def _joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def _spellings(heads: int, scale: float, mask: Tensor | None, bias: Array) -> dict[str, object]:
    barred = torch.tensor(np.isneginf(bias))
    only_barred = bool((np.isneginf(bias) | (bias == 0)).all())

    def masked(scores: Tensor) -> Tensor:
        return scores if mask is None else scores + mask

    def filled(scores: Tensor) -> Tensor:
        return scores.masked_fill(barred, INFINITE) if only_barred else masked(scores)

    def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return _joined(F.scaled_dot_product_attention(*(_split(x, heads) for x in (q, k, v)), attn_mask=mask))

    def fused_bool(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return _joined(
            F.scaled_dot_product_attention(
                *(_split(x, heads) for x in (q, k, v)), attn_mask=~barred if only_barred else mask, scale=scale
            )
        )

    def written_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (_split(x, heads) for x in (q, k, v))
        return _joined(torch.softmax(masked(q @ k.transpose(-2, -1) * scale), -1) @ v)

    def scaled_first(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (_split(x, heads) for x in (q * scale, k, v))
        return _joined(F.dropout(filled(torch.matmul(q, k.mT)).softmax(-1), 0.1, training=False).matmul(v))

    def scaled_both(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (_split(x, heads) for x in (q * scale**0.5, k * scale**0.5, v))
        return _joined(nn.Softmax(dim=-1)(filled(q @ k.mT)) @ v)

    def by_einsum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.unflatten(-1, (heads, -1)) for x in (q, k, v))
        weights = filled(torch.einsum("bqhd,bkhd->bhqk", q, k) * scale).softmax(dim=-1)
        return torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2)

    def keys_first(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Scores with the keys in front, as some models have them."""
        q, k, v = (_split(x, heads) for x in (q, k, v))
        scores = torch.einsum("bhqd,bhkd->bhkq", q, k) / (1 / scale)
        scores = scores if mask is None else scores + mask.transpose(-1, -2)
        return _joined(torch.einsum("bhkq,bhkd->bhqd", scores.softmax(2), v))

    def by_bmm(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        batch = len(q)
        q, k, v = (_split(x, heads).flatten(0, 1) for x in (q, k, v))
        scores = torch.bmm(q, k.transpose(1, 2)).div(1 / scale).view(batch, heads, q.shape[1], k.shape[1])
        weights = torch.softmax(masked(scores), dim=-1).flatten(0, 1)
        return _joined(torch.bmm(weights, v).unflatten(0, (batch, heads)))

    def by_baddbmm(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        batch = len(q)
        start = torch.zeros(heads, q.shape[1], k.shape[1], dtype=q.dtype) if mask is None else mask
        q, k, v = (_split(x, heads).flatten(0, 1) for x in (q, k, v))
        weights = torch.baddbmm(start.repeat(batch, 1, 1), q, k.mT, alpha=scale).softmax(-1)
        return _joined((weights @ v).unflatten(0, (batch, heads)))

    def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The softmax itself written out."""
        q, k, v = (_split(x, heads) for x in (q, k, v))
        raised = masked(q @ k.mT * scale).exp()
        return _joined(raised / raised.sum(-1, keepdim=True) @ v)

    def in_module(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """torch's own module with identities for its projections."""
        width, batch = q.shape[-1], len(q)
        eye = torch.eye(width, dtype=q.dtype)
        given = None if mask is None else mask.repeat(batch, 1, 1)
        out, _ = F.multi_head_attention_forward(
            *(x.transpose(0, 1) for x in (q, k, v)), width, heads, eye.repeat(3, 1), None, None, None, False, 0.0,
            eye, None, training=False, need_weights=heads == 1, attn_mask=given,
        )  # fmt: skip
        return out.transpose(0, 1)

    def head_by_head(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        cut = [x.chunk(heads, -1) for x in (q, k, v)]
        outs = []
        for head, (a, b, c) in enumerate(zip(*cut, strict=True)):
            outs.append(F.scaled_dot_product_attention(a, b, c, attn_mask=None if mask is None else mask[head]))
        return torch.cat(outs, -1)

    made = (fused, fused_bool, written_out, scaled_first, scaled_both, by_einsum, keys_first, by_bmm, by_baddbmm)
    made = (*made, by_hand, in_module, head_by_head)
    return {f.__name__: f for f in made}

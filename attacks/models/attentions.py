"""Ways to attend, usual and odd. Each answers a site (B, H, T, d) with rows (B, H, T, d)."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from attacks.models.skeleton import HEADS, LONGEST, WIDTH, Site

LOW = float("-inf")


def _weighed(s: Site, scores: Tensor) -> Tensor:
    return scores.masked_fill(s.barred, LOW).softmax(-1) @ s.value


def fused(s: Site) -> Tensor:
    return F.scaled_dot_product_attention(s.query, s.key, s.value, attn_mask=~s.barred)


def fused_low(s: Site) -> Tensor:
    """A mask of large negative numbers."""
    return F.scaled_dot_product_attention(s.query, s.key, s.value, attn_mask=s.barred.to(s.query.dtype) * -1e9)


def fused_only_if_needed(s: Site) -> Tensor:
    mask = None if bool(s.read.all()) else ~s.barred
    return F.scaled_dot_product_attention(s.query, s.key, s.value, attn_mask=mask)


def written_out(s: Site) -> Tensor:
    return _weighed(s, s.scores)


def by_einsum(s: Site) -> Tensor:
    scores = torch.einsum("bhqd,bhkd->bhqk", s.query, s.key) * s.scale
    weights = scores.masked_fill(s.barred, LOW).softmax(-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, s.value)


def keys_first(s: Site) -> Tensor:
    scores = (s.key @ s.query.mT * s.scale).masked_fill(s.barred.mT, LOW)
    return torch.einsum("bhkq,bhkd->bhqd", scores.softmax(-2), s.value)


def by_exponentials(s: Site) -> Tensor:
    raised = torch.exp(s.scores) * s.read[:, None, None, :]
    return raised @ s.value / raised.sum(-1, keepdim=True)


def causal(s: Site) -> Tensor:
    length = s.query.shape[2]
    late = torch.ones(length, length).triu(1).bool()
    # A row that may read nothing reads itself: its first keys may all be removed.
    barred = (s.barred | late) & ~torch.eye(length).bool()
    return s.scores.masked_fill(barred, LOW).softmax(-1) @ s.value


def talking_heads(s: Site) -> Tensor:
    return _weighed(s, torch.einsum("bhqk,hg->bgqk", s.scores, s.own["mixing"]))


def talking_after(s: Site) -> Tensor:
    weights = s.scores.masked_fill(s.barred, LOW).softmax(-1)
    return torch.einsum("bhqk,hg->bgqk", weights, s.own["mixing"]) @ s.value


def differential(s: Site) -> Tensor:
    halves = [
        (q @ k.mT * s.scale).masked_fill(s.barred, LOW).softmax(-1)
        for q, k in zip(s.query.chunk(2, -1), s.key.chunk(2, -1), strict=True)
    ]
    return (halves[0] - 0.4 * halves[1]) @ s.value


def sink(s: Site) -> Tensor:
    """One more score that nobody's value goes with."""
    extra = s.own["distance"][:, :1][None, :, None].expand(len(s.query), -1, s.query.shape[2], -1)
    scores = torch.cat([s.scores.masked_fill(s.barred, LOW), extra], -1)
    return scores.softmax(-1)[..., :-1] @ s.value


def one_more_in_the_sum(s: Site) -> Tensor:
    """The softmax that can also say nothing: 1 + the sum below."""
    raised = torch.exp(s.scores).masked_fill(s.barred, 0.0)
    return raised / (1 + raised.sum(-1, keepdim=True)) @ s.value


def prefixed(s: Site) -> Tensor:
    """Learned keys and values before those of the text."""
    batch = len(s.query)
    key = torch.cat([s.own["key"].expand(batch, -1, -1, -1), s.key], 2)
    value = torch.cat([s.own["value"].expand(batch, -1, -1, -1), s.value], 2)
    mask = F.pad(~s.barred, (2, 0), value=True)
    return F.scaled_dot_product_attention(s.query, key, value, attn_mask=mask)


def latent(s: Site) -> Tensor:
    """Learned rows read the text, and the text reads them."""
    asked = s.own["latent"].expand(len(s.query), -1, -1, -1)
    kept = F.scaled_dot_product_attention(asked, s.key, s.value, attn_mask=~s.barred)
    return F.scaled_dot_product_attention(s.query, asked, kept)


def linear(s: Site) -> Tensor:
    """No softmax at all."""
    key = (F.elu(s.key) + 1).masked_fill(s.barred.mT, 0.0)
    query = F.elu(s.query) + 1
    return query @ (key.mT @ s.value) / (query @ key.sum(2)[..., None] + 1e-6)


def plain_products(s: Site) -> Tensor:
    return s.scores.masked_fill(s.barred, 0.0) @ s.value / 8


def sigmoids(s: Site) -> Tensor:
    return torch.sigmoid(s.scores).masked_fill(s.barred, 0.0) @ s.value / 4


def relus(s: Site) -> Tensor:
    return F.relu(s.scores).masked_fill(s.barred, 0.0) @ s.value / 4


def _distances(s: Site) -> Tensor:
    places = torch.arange(s.query.shape[2])
    return places[None, :] - places[:, None]


def window(s: Site) -> Tensor:
    """Each row reads its neighbours; a row that may read nothing reads nothing."""
    scores = s.scores.masked_fill(s.barred | (_distances(s).abs() > 2), -1e9)
    return scores.softmax(-1) @ s.value


def dilated(s: Site) -> Tensor:
    return s.scores.masked_fill(s.barred | (_distances(s) % 2 != 0), -1e9).softmax(-1) @ s.value


def blocks(s: Site) -> Tensor:
    """Blocks of four, for which the sequence is filled up."""
    length = s.query.shape[2]
    more = -length % 4
    query, key, value = (F.pad(x, (0, 0, 0, more)).unflatten(2, (-1, 4)) for x in (s.query, s.key, s.value))
    read = F.pad(s.read, (0, more)).unflatten(1, (-1, 4))[:, None, :, None, :]
    scores = (query @ key.mT * s.scale).masked_fill(~read, -1e9)
    return (scores.softmax(-1) @ value).flatten(2, 3)[:, :, :length]


def by_distance(s: Site) -> Tensor:
    return _weighed(s, s.scores + s.own["distance"][:, _distances(s) + LONGEST])


def alibi(s: Site) -> Tensor:
    slopes = torch.tensor([0.5, 0.25], dtype=s.query.dtype)[:, None, None]
    return F.scaled_dot_product_attention(
        s.query, s.key, s.value, attn_mask=(-slopes * _distances(s).abs()).masked_fill(s.barred, LOW)
    )


def rotary(s: Site) -> Tensor:
    angles = torch.arange(s.query.shape[2])[:, None] * torch.tensor([1.0, 0.3, 0.1, 0.03], dtype=s.query.dtype)
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    query, key = (x * cos + torch.cat([-x[..., 4:], x[..., :4]], -1) * sin for x in (s.query, s.key))
    return F.scaled_dot_product_attention(query, key, s.value, attn_mask=~s.barred)


def time_first(s: Site) -> Tensor:
    """All of it with the tokens in front: (T, B H, d)."""
    batch = len(s.query)
    query, key, value = (x.permute(2, 0, 1, 3).flatten(1, 2) for x in (s.query, s.key, s.value))
    scores = torch.einsum("qnd,knd->nqk", query, key) * s.scale
    scores = scores.masked_fill(s.barred.expand(-1, HEADS, -1, -1).flatten(0, 1), LOW)
    mixed = torch.einsum("nqk,knd->qnd", scores.softmax(-1), value)
    return mixed.unflatten(1, (batch, HEADS)).permute(1, 2, 0, 3)


def multi_query(s: Site) -> Tensor:
    """One head of keys and values for all."""
    key, value = s.key[:, :1], s.value[:, :1]
    return F.scaled_dot_product_attention(s.query, key, value, attn_mask=~s.barred, enable_gqa=True)


def renormalised(s: Site) -> Tensor:
    """Masked after the softmax."""
    weights = s.scores.softmax(-1).masked_fill(s.barred, 0.0)
    return weights / weights.sum(-1, keepdim=True) @ s.value


def values_only(s: Site) -> Tensor:
    """Removed tokens keep their share of the attention, and give nothing."""
    return s.scores.softmax(-1) @ s.value.masked_fill(s.barred.mT, 0.0)


def queries_too(s: Site) -> Tensor:
    """Removed rows are emptied."""
    return _weighed(s, s.scores).masked_fill(s.barred.mT, 0.0)


def mask_twice(s: Site) -> Tensor:
    """A pair of tokens may be read only if both are there; others read themselves."""
    both = s.read[:, None, :, None] & s.read[:, None, None, :]
    both = both | torch.eye(s.query.shape[2]).bool()
    return F.scaled_dot_product_attention(s.query, s.key, s.value, attn_mask=both)


def largest(s: Site) -> Tensor:
    """Only the two largest scores count."""
    scores = s.scores.masked_fill(s.barred, -1e9)
    bound = scores.topk(min(2, scores.shape[-1]), -1).values[..., -1:]
    return scores.masked_fill(scores < bound, LOW).softmax(-1) @ s.value


def hard(s: Site) -> Tensor:
    """The largest score takes all."""
    scores = s.scores.masked_fill(s.barred, -1e9)
    return F.one_hot(scores.argmax(-1), scores.shape[-1]).to(scores.dtype) @ s.value


def cosine(s: Site) -> Tensor:
    query, key = F.normalize(s.query, dim=-1), F.normalize(s.key, dim=-1)
    return _weighed(s, query @ key.mT * 4)


def capped(s: Site) -> Tensor:
    return _weighed(s, 3 * torch.tanh(s.scores / 3))


def gated(s: Site) -> Tensor:
    return _weighed(s, s.scores) * F.silu(s.query)


def scaled_by_length(s: Site) -> Tensor:
    """Sharper on long texts: what is read depends on how many tokens are left."""
    count = s.read.sum(-1)[:, None, None, None].to(s.query.dtype)
    return _weighed(s, s.scores * torch.log1p(count) / math.log(8))


def position_by_position(s: Site) -> Tensor:
    """One call of attention for each query."""
    rows = [
        F.scaled_dot_product_attention(s.query[:, :, i : i + 1], s.key, s.value, attn_mask=~s.barred)
        for i in range(s.query.shape[2])
    ]
    return torch.cat(rows, 2)


def deleted(s: Site) -> Tensor:
    """Removed keys are really taken out, row by row of the batch."""
    rows = [
        F.scaled_dot_product_attention(q[None], k[None][:, :, r], v[None][:, :, r])
        for q, k, v, r in zip(s.query, s.key, s.value, s.read, strict=True)
    ]
    return torch.cat(rows)


def averaged(s: Site) -> Tensor:
    """No scores: the mean of what may be read."""
    weights = s.read.to(s.value.dtype) / s.read.sum(-1, keepdim=True)
    return (weights[:, None, None, :] @ s.value).expand(-1, -1, s.query.shape[2], -1)


def of_torch(s: Site) -> Tensor:
    """torch's own function, with identities for its projections."""
    query, key, value = (x.transpose(1, 2).flatten(2).transpose(0, 1) for x in (s.query, s.key, s.value))
    eye = torch.eye(WIDTH, dtype=query.dtype)
    out, _ = F.multi_head_attention_forward(
        query, key, value, WIDTH, HEADS, eye.repeat(3, 1), None, None, None, False, 0.0, eye, None,
        training=False, key_padding_mask=~s.read, need_weights=False,
    )  # fmt: skip
    return out.transpose(0, 1).unflatten(-1, (HEADS, -1)).transpose(1, 2)


ATTENTIONS = {
    f.__name__: f
    for f in (
        fused, fused_low, fused_only_if_needed, written_out, by_einsum, keys_first, by_exponentials, causal,
        talking_heads, talking_after, differential, sink, one_more_in_the_sum, prefixed, latent, linear,
        plain_products, sigmoids, relus, window, dilated, blocks, by_distance, alibi, rotary, time_first, multi_query,
        renormalised, values_only, queries_too, mask_twice, largest, hard, cosine, capped, gated, scaled_by_length,
        position_by_position, deleted, averaged, of_torch,
    )
}  # fmt: skip

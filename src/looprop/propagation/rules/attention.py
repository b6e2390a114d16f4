"""Attention sites: their rules, whether the attention is one fused call or matmul, softmax, matmul."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from looprop.intercept.attention import AttentionSite, additive_mask
from looprop.propagation import operations
from looprop.propagation.degrees import degree, noted
from looprop.propagation.gradients import epsilon_factor, scale_gradient, weigh_gradient
from looprop.propagation.rules.base import rule
from looprop.propagation.trace import mark, trace_of

if TYPE_CHECKING:
    from looprop.propagation.call import Call

# A score this low is a mask, not a term of a sum.
MASK = -1e4


@rule(*operations.ATTENTION)
def fused(call: Call) -> Any:
    """scaled_dot_product_attention.  AttnLRP: V gets 1/2 of the gradient, Q and K 1/4; CP-LRP: all of it to V."""
    mode = call.mode
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
    given = {**dict(zip(names, call.args, strict=False)), **call.kwargs, "dropout_p": 0.0}
    query, key, value = given.pop("query"), given.pop("key"), given.pop("value")
    mask = given.get("attn_mask")
    if isinstance(mask, Tensor) and mask.requires_grad:
        raise call.refuse("its mask depends on activations")
    site = AttentionSite(len(mode.sites) + 1, fused=True)
    mode.sites.append(site)
    rule = call.plan.rule(site.layer)
    if rule == "gradient":
        out = call.function(query, key, value, **given)
    elif call.plan.epsilon:
        out = _unfused(call, query, key, value, given, rule)
    elif rule == "cp":
        out = noted(call, call.function(query.detach(), key.detach(), value, **given), degree(value))
    else:
        # A product is split only where both of its factors are activations: in halves, unless the canonical form counts
        # more behind one.
        behind = [degree(x) if x.requires_grad else 0 for x in (query, key, value)]
        weights = min(1, behind[0] + behind[1])  # a softmax is one activation, whatever stands behind it
        of_weights = weights / (weights + behind[2]) if weights else 0.0
        shares = [of_weights * n / max(1, behind[0] + behind[1]) for n in behind[:2]] + [
            behind[2] / max(1, weights + behind[2])
        ]
        parts = (
            scale_gradient(x, share) if x.requires_grad else x
            for x, share in zip((query, key, value), shares, strict=True)
        )
        out = noted(
            call, call.function(*parts, **given), weights + behind[2] if call.plan.bilinear == "canonical" else 1
        )
    if mode.record:
        site.query, site.key, site.value, site.output = query, key, value, out
        site.mask, site.causal, site.scale = mask, bool(given.get("is_causal", False)), given.get("scale")
    return out


def _unfused(call: Call, query: Tensor, key: Tensor, value: Tensor, given: dict[str, Any], rule: str) -> Tensor:
    """The same attention step by step, with the stabiliser of a positive epsilon at each of its denominators."""
    epsilon = call.plan.epsilon
    if given.get("enable_gqa"):
        groups = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
    scale = given.get("scale") or 1.0 / math.sqrt(query.shape[-1])
    scores = query @ key.transpose(-2, -1) * scale  # (B, H, T, T)
    if scores.requires_grad:
        scores = weigh_gradient(scores, epsilon_factor(scores.detach(), epsilon, shares=_shares(query, key)))
    mask = additive_mask(given.get("attn_mask"), bool(given.get("is_causal")), query.shape[-2], key.shape[-2], scores)
    if mask is not None and scores.requires_grad and not is_mask(mask):  # a bias of positions is a term of a sum
        total = scores + mask
        scores = weigh_gradient(scores, epsilon_factor(total.detach(), epsilon))
    weights = _masked_softmax(scores, mask)
    weights = weights.detach() if rule == "cp" else weights
    out = weights @ value
    return weigh_gradient(out, epsilon_factor(out.detach(), epsilon, shares=_shares(weights, value)))


def _shares(left: Tensor, right: Tensor) -> int:
    """A product is split in halves only where both of its factors are activations."""
    return 2 if left.requires_grad and right.requires_grad else 1


def is_mask(constant: Tensor) -> bool:
    """Whether a constant that is added to scores only says which of them count."""
    return bool(((constant == 0) | (constant <= MASK)).all())


def _masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the keys; a row without any key (padding) has zero weights, as the fused kernels have it."""
    if mask is None:
        return torch.softmax(scores, dim=-1)
    empty = mask.isneginf().all(-1, keepdim=True)
    return torch.softmax(scores + mask.masked_fill(empty, 0.0), dim=-1).masked_fill(empty, 0.0)


@rule(*operations.SOFTMAX)
def softmax(call: Call) -> Any:
    """Softmax of attention scores: its Taylor rule is the plain gradient; under CP-LRP the weights are constants."""
    mode = call.mode
    scores = call.activations[0]
    trace = trace_of(scores)
    # torch's own attention is one also where its query is a parameter, so that its scores are no product of two
    # activations.
    if trace is None or (trace.product is None and not mode.inside("multi_head_attention_forward")):
        if call.plan.activation == "gradient":
            return call.run()
        raise call.refuse(
            "this softmax does not normalise the scores of an attention (a router, a pooling, a final softmax?)"
        )
    site = AttentionSite(len(mode.sites) + 1, fused=False)
    mode.sites.append(site)
    weights = call.run()
    if call.plan.rule(site.layer) == "cp":
        weights = weights.detach()
    if mode.record and trace.product is not None:
        site.query, right = trace.product
        site.key, site.weights, site.scale = right.transpose(-2, -1), weights, trace.factor
        product = site.query.detach() @ right.detach() * trace.factor if _multiplies(site.query, right) else None
        site.bias = scores.detach() - product if product is not None and product.shape == scores.shape else None
    return mark(weights, mode.fresh.but(site=site.layer, held="" if weights.requires_grad else "weights"))


def _multiplies(left: Tensor, right: Tensor) -> bool:
    return left.shape[:-2] == right.shape[:-2] and left.shape[-1] == right.shape[-2]


def product_rule(call: Call) -> str:
    """Does a matrix product of two activations split its relevance? Not at a site that follows the gradient."""
    sites = [t.site for a in call.activations if (t := trace_of(a)) is not None and t.site is not None]
    rule = call.plan.rule(sites[0] if sites else len(call.mode.sites) + 1)
    return "gradient" if rule == "gradient" or call.plan.product == "gradient" else "halves"


def values_met(call: Call, out: Tensor) -> Tensor:
    """Note the values and the output of an attention site that is written out."""
    if call.mode.record:
        for weights, value in ((call.args[0], call.args[1]),) if len(call.args) > 1 else ():
            trace = trace_of(weights) if isinstance(weights, Tensor) else None
            if trace is not None and trace.site is not None:
                site = call.mode.sites[trace.site - 1]
                site.value, site.output = value, out
    return out

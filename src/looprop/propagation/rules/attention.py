"""Attention sites: their rules, whether the attention is one fused call or matmul, softmax, matmul."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from looprop.intercept.attention import AttentionCall, AttentionSite, attention_scores, shared_by_groups
from looprop.propagation import operations
from looprop.propagation.call import Trace, mark, trace_of
from looprop.propagation.degrees import degree, noted
from looprop.propagation.gradients import (
    epsilon_factor,
    hold,
    scale_gradient,
    softmax_at_temperature,
    weigh_gradient,
)
from looprop.propagation.rules.base import rule
from looprop.propagation.rules.coefficients import router_weights

if TYPE_CHECKING:
    from looprop.propagation.call import Call

# A score this low is a mask, not a term of a sum.
MASK = -1e4


@rule(*operations.ATTENTION)
def fused(call: Call) -> Any:
    """scaled_dot_product_attention.  AttnLRP: V gets 1/2 of the gradient, Q and K 1/4; CP-LRP: all of it to V."""
    mode = call.mode
    given = AttentionCall.parse(len(mode.sites) + 1, call.args, call.kwargs)
    mask = hold(given.mask) if isinstance(given.mask, Tensor) else given.mask
    if isinstance(given.mask, Tensor) and given.mask.requires_grad and call.plan.epsilon:
        raise call.refuse("its mask depends on activations, for which a positive epsilon is not defined")
    site = AttentionSite.after(mode.sites, given)
    rule = call.plan.rule(site.layer)
    if rule == "gradient":
        out = given.run()
    elif call.plan.epsilon:
        out = _unfused(call, given, rule)
    elif rule == "cp":
        held = given.but(query=hold(given.query), key=hold(given.key), mask=mask)
        out = noted(call, held.run(), degree(given.value))
    else:
        out = _split(call, given)
    if mode.record:
        site.query, site.key, site.value, site.output, site.products = given.query, given.key, given.value, out, 1
        site.mask, site.causal, site.scale = given.mask, given.causal, given.scale
    return out


def _split(call: Call, given: AttentionCall) -> Tensor:
    """AttnLRP in one call: its products are split only where both of their factors are activations; in halves, unless
    the canonical form counts more behind one.
    """
    factors = (given.query, given.key, given.value)
    query, key, value = (degree(x) if x.requires_grad else 0 for x in factors)
    mask = given.mask if isinstance(given.mask, Tensor) and given.mask.requires_grad else None
    weights = min(1, query + key + (mask is not None))  # a softmax is one activation, whatever stands behind it
    of_weights = weights / (weights + value) if weights else 0.0
    of_scores = max(1, query + key)
    shares = (of_weights * query / of_scores, of_weights * key / of_scores, value / max(1, weights + value))
    parts = [scale_gradient(x, share) if x.requires_grad else x for x, share in zip(factors, shares, strict=True)]
    if mask is not None:  # a term of the scores that comes from activations takes part as a whole
        given = given.but(mask=scale_gradient(mask, of_weights))
    given = given.but(query=parts[0], key=parts[1], value=parts[2])
    out = given.run() if call.plan.temperature == 1.0 else _written(given, call.plan.temperature)
    return noted(call, out, weights + value if call.plan.bilinear == "canonical" else 1)


def _written(given: AttentionCall, temperature: float) -> Tensor:
    """The same attention step by step, with the gradient of its softmax taken at a temperature."""
    key, value = (shared_by_groups(x, given.query) if given.grouped else x for x in (given.key, given.value))
    scores = attention_scores(given.query, key, given.scale)  # (B, H, T, T)
    return _masked_softmax(scores, given.added(scores), temperature) @ value


def _unfused(call: Call, given: AttentionCall, rule: str) -> Tensor:
    """The same attention step by step, with the stabiliser of a positive epsilon at each of its denominators."""
    epsilon, query = call.plan.epsilon, given.query
    key, value = (shared_by_groups(x, query) if given.grouped else x for x in (given.key, given.value))
    scores = attention_scores(query, key, given.scale)  # (B, H, T, T)
    if scores.requires_grad:
        scores = weigh_gradient(scores, epsilon_factor(scores.detach(), epsilon, shares=_shares(query, key)))
    mask = given.added(scores)
    if mask is not None and scores.requires_grad and not is_mask(mask):  # a bias of positions is a term of a sum
        total = scores + mask
        scores = weigh_gradient(scores, epsilon_factor(total.detach(), epsilon))
    weights = _masked_softmax(scores, mask, call.plan.temperature)
    weights = hold(weights) if rule == "cp" else weights
    out = weights @ value
    return weigh_gradient(out, epsilon_factor(out.detach(), epsilon, shares=_shares(weights, value)))


def _shares(left: Tensor, right: Tensor) -> int:
    """A product is split in halves only where both of its factors are activations."""
    return 2 if left.requires_grad and right.requires_grad else 1


def is_mask(constant: Tensor) -> bool:
    """Whether a constant that is added to scores only says which of them count."""
    return bool(((constant == 0) | (constant <= MASK)).all())


def _masked_softmax(scores: Tensor, mask: Tensor | None, temperature: float) -> Tensor:
    """Softmax over the keys; a row without any key (padding) has zero weights, as the fused kernels have it."""
    if mask is None:
        return softmax_at_temperature(scores, -1, temperature)
    empty = mask.isneginf().all(-1, keepdim=True)
    return softmax_at_temperature(scores + mask.masked_fill(empty, 0.0), -1, temperature).masked_fill(empty, 0.0)


@rule(*operations.SOFTMAX)
def softmax(call: Call) -> Any:
    """Softmax of attention scores: its Taylor rule is the plain gradient; under CP-LRP the weights are constants."""
    mode = call.mode
    scores = call.activations[0]
    trace = trace_of(scores)
    # torch's own attention is one also where its query is a parameter, so that its scores are no product of two
    # activations.
    if trace is None or not (_normalises_keys(call, trace) or mode.inside("multi_head_attention_forward")):
        if trace is not None and trace.pairs and not mode.plain:
            raise call.refuse(
                f"a softmax over {trace.pairs}: attention scores have a rule only where they are one matrix product of "
                "queries and keys (q @ k.mT)"
            )
        return router_weights(call, call.run())  # a router or a pooling; a final softmax is refused at the output
    site = AttentionSite.after(mode.sites)
    rule = call.plan.rule(site.layer)
    weights = _weights(call, trace) if rule == "attnlrp" else call.run()
    if rule == "cp":
        weights = hold(weights)
    if mode.record and trace.product is not None:
        site.query, right = trace.product
        site.key, site.weights, site.scale = right.transpose(-2, -1), weights, trace.factor
        product = site.query.detach() @ right.detach() * trace.factor if _multiplies(site.query, right) else None
        if product is not None and product.shape[-2:] == scores.shape[-2:] and product.numel() == scores.numel():
            site.bias = scores.detach() - product.reshape(scores.shape)  # heads may have been folded into the batch
        elif product is not None and (*product.shape[:-1], product.shape[-1] + 1) == scores.shape:
            site.bias, site.sink = scores.detach()[..., :-1] - product, scores.detach()[..., -1:]
    held: Literal["", "weights"] = "" if weights.requires_grad else "weights"
    return mark(weights, mode.fresh.but(site=site.number, held=held, pairs="weights of attention"))


def _weights(call: Call, trace: Trace) -> Tensor:
    """Scores to weights by AttnLRP's rule, at the temperature of the plan.

    Where products of activations are not split (`product="gradient"`), that of queries and keys has not been split yet:
    nothing told it from another before its softmax.
    """
    plan, scores = call.plan, call.activations[0]
    unsplit = plan.product == "gradient" and trace.product is not None and all(t.requires_grad for t in trace.product)
    if not unsplit and plan.temperature == 1.0:
        weights: Tensor = call.run()
        return weights
    scores = scale_gradient(scores, 0.5) if unsplit else scores
    if plan.temperature == 1.0:
        weights = call.run(*(scores if a is call.activations[0] else a for a in call.args))
        return weights
    dim = call.kwargs.get("dim", call.args[1] if len(call.args) > 1 else -1)
    dtype = call.kwargs.get("dtype")
    return softmax_at_temperature(scores if dtype is None else scores.to(dtype), dim, plan.temperature)


def _normalises_keys(call: Call, trace: Trace) -> bool:
    """Whether the rows of a softmax are scores of keys: the product of two activations, or of a learned query on the
    left with keys on the right. A router's product has its experts on the right, which are constants.
    """
    if trace.product is None:
        return False
    dim = call.kwargs.get("dim", call.args[1] if len(call.args) > 1 else None)
    return trace.product[0].requires_grad or dim in (-1, call.activations[0].dim() - 1)


def _multiplies(left: Tensor, right: Tensor) -> bool:
    return left.shape[:-2] == right.shape[:-2] and left.shape[-1] == right.shape[-2]


def product_rule(call: Call) -> str:
    """Does a matrix product of two activations split its relevance? Not at a site that follows the gradient. Weights
    and values are an attention's own, whatever becomes of other products.
    """
    sites = [t.site for a in call.activations if (t := trace_of(a)) is not None and t.site is not None]
    met = call.mode.sites
    rule = call.plan.rule(met[sites[0] - 1].layer if sites else (met[-1].layer if met else 0) + 1)
    return "gradient" if rule == "gradient" or (call.plan.product == "gradient" and not sites) else "halves"


def values_met(call: Call, out: Tensor) -> Tensor:
    """Note the values and the output of an attention site that is written out."""
    if not call.mode.record or len(call.args) < 2:
        return out
    if call.name == "einsum":
        return _values_met_by_einsum(call, out)
    weights, value = call.args[:2]
    trace = trace_of(weights) if isinstance(weights, Tensor) else None
    if trace is not None and trace.site is not None:
        _note(call.mode.sites[trace.site - 1], weights, value, out)
    return out


def _note(site: AttentionSite, weights: Tensor, value: Tensor, out: Tensor) -> None:
    """The product of a site, unless its weights were changed on the way from the softmax to the values."""
    given, site.weights, size = site.weights, None, weights.shape[-1]
    used = weights.detach()
    for kept in () if given is None else (given[..., :size], given[..., -size:]):  # a sink is the last, or the first
        if kept.numel() == used.numel() and torch.equal(used.reshape(kept.shape).to(kept), kept.detach()):
            site.weights = kept
            break
    site.value, site.output, site.products = value, out, site.products + 1
    if site.weights is None:
        site.weights, site.changed = given, True


def _values_met_by_einsum(call: Call, out: Tensor) -> Tensor:
    """The same for a product that is written with letters: values (..., T, d) and output (..., R, d) are recorded as a
    matrix product would have them. What is returned has the model's own order, and comes from what is recorded.
    """
    first = call.args[1]
    operands = list(first) if isinstance(first, (list, tuple)) else list(call.args[1:])
    terms, arrow, result = str(call.args[0]).replace(" ", "").partition("->")
    names = terms.split(",")
    of_site = [n for n, x in enumerate(operands) if (t := trace_of(x)) is not None and t.site is not None]
    if len(operands) != 2 or len(of_site) != 1 or not arrow or "." in terms:
        return out
    of_weights, of_value = names[of_site[0]], names[1 - of_site[0]]
    batch, query, key = tuple(of_weights[:-2]), of_weights[-2], of_weights[-1]
    own = set(of_value) - set(of_weights)
    if len(own) != 1 or set(of_value) != {*batch, key, *own} or set(result) != {*batch, query, *own}:
        return out
    (width,) = own
    value = operands[1 - of_site[0]].permute([of_value.index(c) for c in (*batch, key, width)])
    order = [result.index(c) for c in (*batch, query, width)]
    recorded = out.permute(order)
    trace = trace_of(operands[of_site[0]])
    assert trace is not None
    assert trace.site is not None
    _note(call.mode.sites[trace.site - 1], operands[of_site[0]], value, recorded)
    returned = recorded.permute([order.index(n) for n in range(len(order))])
    return mark(returned, trace_of(out) or call.mode.fresh)

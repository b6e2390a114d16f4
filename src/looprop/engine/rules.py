"""The rule of each operation, as a change to its backward pass. The equations stand in reference.py."""

from typing import Any

import torch
from torch import Tensor

from looprop.engine import attention, operations
from looprop.engine.gradients import constant_std_norm, epsilon_factor, identity_rule, scale_gradient, weigh_gradient
from looprop.engine.mode import Call, Rule
from looprop.engine.trace import Trace, mark, trace_of

# A score this low is a mask, not a term of a sum.
MASK = -1e4
REDUCTION = ("sum", "mean")


def _trace(tensor: Tensor) -> Trace:
    trace = trace_of(tensor)
    assert trace is not None  # the mode refuses activations without one
    return trace


def pass_through(call: Call) -> Any:
    """Reshaping, selecting, masking: relevance follows the gradient."""
    out = call.run()
    first = _trace(call.activations[0])
    if isinstance(out, Tensor) and out.requires_grad:
        mark(out, call.mode.fresh.but(product=first.product, site=first.site, mean_square=first.mean_square, square=first.square))
    return out


def cast(call: Call) -> Any:
    """A copy or change of dtype or device is the same tensor for every purpose."""
    out = call.run()
    (source, *_) = call.activations
    if isinstance(out, Tensor) and out.requires_grad and out is not source:
        trace = _trace(source)
        mark(
            out,
            trace.but(origin=trace.origin if out.dtype == source.dtype else None, unweighted=None)
            if trace.linear
            else trace.but(origin=None),
        )
    return out


def dropout(call: Call) -> Any:
    """Explanations are of the model as it predicts: dropout is left out."""
    return call.args[0] if call.args else call.kwargs["input"]


def linear(call: Call) -> Any:
    """The epsilon rule: the gradient, times z / (z + epsilon sign(z))."""
    if len(call.activations) > 1:
        return product(call)
    out = call.run()
    return _weighed(call, out, without=_bias(call))


def _bias(call: Call) -> Tensor | None:
    names = {"linear": 2, "batch_norm": 4, "addmm": 0, "addmv": 0, "addbmm": 0, "baddbmm": 0}
    position = names.get(call.name, 2)
    value = call.args[position] if len(call.args) > position else call.kwargs.get("bias", call.kwargs.get("input"))
    if not isinstance(value, Tensor):
        return None
    return value.reshape(-1, *[1] * int(call.name[-2])) if call.name.startswith("conv") else value


def _weighed(call: Call, out: Tensor, *, without: Tensor | None = None) -> Tensor:
    plan = call.plan
    if plan.bias == "printed" and without is not None:
        z = (out - without).detach()
        return weigh_gradient(out, epsilon_factor(z, plan.epsilon, value=out.detach()))
    return weigh_gradient(out, epsilon_factor(out.detach(), plan.epsilon)) if plan.epsilon else out


def matrix_product(call: Call) -> Any:
    """Linear in its one activation, or a product of two."""
    return product(call) if len(call.activations) > 1 else _keep_site(call, _weighed(call, call.run()))


def _keep_site(call: Call, out: Tensor) -> Tensor:
    return attention.values_met(call, out)


def product(call: Call) -> Any:
    """A product of two activations: half of the relevance to each, denominator 2 O + epsilon sign(O)."""
    plan, matrix = call.plan, call.name != "mul"
    if len(call.activations) > 2:
        raise call.refuse("it multiplies more than two activations at once")
    out = call.run()
    rule = attention.product_rule(call) if matrix else plan.product
    if rule == "gradient":
        halved = out
    elif plan.epsilon:
        halved = weigh_gradient(out, epsilon_factor(out.detach(), plan.epsilon, shares=2))
    else:
        halved = scale_gradient(out, 0.5)
    left, right = call.activations
    mark(halved, call.mode.fresh.but(product=(left, right) if matrix else None, unweighted=out if plan.epsilon and matrix else None))
    return attention.values_met(call, halved) if matrix else halved


def add(call: Call) -> Any:
    """A sum: the gradient, times s / (s + epsilon sign(s)); a constant keeps its share, a mask takes none."""
    if call.name not in REDUCTION and _is_chain(call) and not all(_trace(t).linear for t in call.activations):
        return pointwise(call)
    _settle(call)
    out = call.run()
    constants = [a for a in (*call.args, *call.kwargs.values()) if isinstance(a, Tensor) and not a.requires_grad and a.is_floating_point()]
    if call.plan.epsilon and not any(_is_mask(c) for c in constants):
        out = _weighed(call, out)
    first = next((t for t in call.activations if _trace(t).product is not None), call.activations[0])
    trace = _trace(first)
    mean_square = (trace.mean_square and len(call.activations) == 1) or (call.name in REDUCTION and trace.square)
    mark(out, call.mode.fresh.but(product=trace.product, mean_square=mean_square))
    if call.mode.embedding_sum is not None and len(call.activations) == 1 and call.activations[0] is call.mode.embedding_sum:
        call.mode.embedding_sum = out
    return out


def _is_mask(constant: Tensor) -> bool:
    return bool(((constant == 0) | (constant <= MASK)).all())


def _origin(tensor: Tensor) -> Tensor:
    origin = _trace(tensor).origin
    return tensor if origin is None else origin


def _is_chain(call: Call) -> bool:
    """All arguments are pointwise functions of one tensor, or plain numbers."""
    origin = _origin(call.activations[0])
    values = [v for v in (*call.args, *call.kwargs.values()) if isinstance(v, Tensor)]
    return all((_origin(v) is origin) if v.requires_grad else v.dim() == 0 for v in values) and all(
        v.shape == origin.shape for v in values if v.requires_grad
    )


def _settle(call: Call) -> None:
    """Where a pointwise expression ends, it must be one that the identity rule can take."""
    for tensor in call.activations:
        trace = _trace(tensor)
        if trace.at_zero != 0.0:
            raise call.mode._not_zero(call, trace)


def scale(call: Call) -> Any:
    """mul and div: a scaling by a constant, a product of two activations, or part of a pointwise expression."""
    acts = call.activations
    if _is_chain(call):
        chain = [_trace(t) for t in acts]
        by_number = len(acts) == 1 and call.name != "rdiv" and not (call.name == "div" and call.args[0] is not acts[0])
        if not (by_number and chain[0].linear):
            return pointwise(call)
        out = call.run()
        if chain[0].unweighted is not None:
            raw = call.run(*(chain[0].unweighted if a is acts[0] else a for a in call.args))
            out = weigh_gradient(raw, epsilon_factor(raw.detach(), call.plan.epsilon, shares=2))
            return mark(out, chain[0].but(origin=None, unweighted=raw))
        return mark(out, chain[0].but(origin=_origin(acts[0])))
    _settle(call)
    if len(acts) == 1:
        if call.name in ("div", "rdiv") and not _divides_by_constant(call):
            raise call.refuse("it divides by an activation")
        out = call.run()
        trace = _trace(acts[0])
        return mark(out, call.mode.fresh.but(product=trace.product, site=trace.site))
    if call.name != "mul":
        raise call.refuse("it divides by an activation; only a norm's standard deviation may divide")
    return product(call)


def _divides_by_constant(call: Call) -> bool:
    numerator = call.args[1] if call.name == "rdiv" else call.args[0]
    return isinstance(numerator, Tensor) and numerator.requires_grad


def pointwise(call: Call) -> Any:
    """A pointwise expression of one tensor is one activation: identity rule between the tensor and the whole of it."""
    first = _trace(call.activations[0])
    if call.name in ("sqrt", "rsqrt", "pow") and first.mean_square:
        return _normaliser(call)
    if call.plan.activation == "gradient":
        square = _is_chain(call) and _is_square(call, [_trace(t) for t in call.activations])
        return mark(call.run(), call.mode.fresh.but(square=square, product=first.product))
    if not _is_chain(call):
        _settle(call)
        raise call.refuse("its arguments are not pointwise functions of one activation")
    origin = _origin(call.activations[0])
    value = call.run(*(a.detach() if isinstance(a, Tensor) else a for a in call.args))
    at_zero = float(call.run(*(_at_zero(a) for a in call.args)))
    before = [_trace(t) for t in call.activations]
    culprit = next((t.culprit for t in before if t.culprit), call.name)
    out = identity_rule(origin, value)
    return mark(
        out,
        call.mode.fresh.but(
            origin=origin,
            at_zero=at_zero,
            culprit=culprit,
            linear=False,
            square=_is_square(call, before),
            product=before[0].product,
        ),
    )


def _at_zero(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    if not value.requires_grad:
        return value.double()
    return torch.tensor(_trace(value).at_zero, dtype=torch.float64, device=value.device)


def _is_square(call: Call, before: list[Trace]) -> bool:
    if not all(t.linear for t in before):
        return False
    return call.name == "square" or (call.name == "mul" and len(before) == 2) or (call.name == "pow" and call.args[1] == 2)


def _normaliser(call: Call) -> Any:
    """The root of a mean of squares is a norm's standard deviation: a constant."""
    if call.name == "pow" and call.args[1] not in (0.5, -0.5):
        raise call.refuse("a power of a mean of squares other than its root or inverse root")
    out = call.run()
    return out if call.plan.norm == "gradient" else mark(out.detach(), call.mode.fresh.but(normaliser=True))


def deviation(call: Call) -> Any:
    """Standard deviations and norms of activations are normalisers: constants that may only multiply or divide."""
    out = call.run()
    if call.plan.norm == "gradient":
        return out
    if call.name == "var":
        return mark(out, call.mode.fresh.but(mean_square=True))
    return mark(out.detach(), call.mode.fresh.but(normaliser=True))


def norm(call: Call) -> Any:
    """Layer norm and RMS norm with the standard deviation as a constant, then as a linear layer."""
    if call.plan.norm == "gradient":
        return call.run()
    names: tuple[str, ...] = ("input", "normalized_shape", "weight", "bias", "eps")
    if call.name not in ("layer_norm", "rms_norm"):
        raise call.refuse("only layer norm and RMS norm have a rule")
    if call.name == "rms_norm":
        names = ("input", "normalized_shape", "weight", "eps")
    given = {**dict(zip(names, call.args, strict=False)), **call.kwargs}
    x, weight, bias = given["input"], given.get("weight"), given.get("bias")
    eps = given.get("eps")
    if eps is None:
        eps = torch.finfo(x.dtype).eps if call.name == "rms_norm" else 1e-5
    out = constant_std_norm(x, list(given["normalized_shape"]), weight, bias, eps, centered=call.name == "layer_norm")
    return _weighed(call, out, without=bias)


def cut(call: Call) -> Any:
    """detach, .data, item: the model itself cuts an activation off."""
    raise call.refuse("it takes an activation out of the graph, so that its relevance would be lost")


def _table() -> dict[str, Rule]:
    table: dict[str, Rule] = {}
    for names, rule in (
        (operations.PASS, pass_through),
        (operations.LINEAR, linear),
        (operations.MATRIX_PRODUCT, matrix_product),
        (operations.SUM, add),
        (operations.SCALE, scale),
        (operations.ACTIVATION | operations.POINTWISE, pointwise),
        (operations.NORM, norm),
        (operations.DEVIATION, deviation),
        (operations.SOFTMAX, attention.softmax),
        (operations.ATTENTION, attention.fused),
        (operations.DROPOUT, dropout),
        (operations.CUT, cut),
        (frozenset({"to", "float", "double", "half", "bfloat16", "clone", "contiguous", "type", "type_as"}), cast),
        (operations.EMBEDDING, cut),
    ):
        table.update(dict.fromkeys(names, rule))
    return table


RULES = _table()

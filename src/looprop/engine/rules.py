"""The rule of each operation, as a change to its backward pass. The equations stand in reference.py."""

from typing import Any

import torch
from torch import Tensor

from looprop.engine import attention, degrees, operations
from looprop.engine.call import Call, Rule, cut_off
from looprop.engine.gradients import constant_std_norm, epsilon_factor, identity_rule, scale_gradient, weigh_gradient
from looprop.engine.location import inside_a_module
from looprop.engine.products import product
from looprop.engine.trace import Trace, mark, trace_of

REDUCTION = ("sum", "mean")
VANISHES_AT_ZERO = operations.ACTIVATION - {"hardtanh"}


def _trace(tensor: Tensor) -> Trace:
    trace = trace_of(tensor)
    assert trace is not None  # the mode refuses activations without one
    return trace


def pass_through(call: Call) -> Any:
    """Reshaping, selecting, masking: relevance follows the gradient."""
    out = call.run()
    first = _trace(call.activations[0])
    if isinstance(out, Tensor) and out.requires_grad and first is not call.mode.fresh:
        mark(
            out,
            call.mode.fresh.but(
                product=first.product,
                factor=first.factor,
                site=first.site,
                mean_square=first.mean_square,
                square=first.square,
                degree=degrees.common(call),
            ),
        )
    return out


def scatter(call: Call) -> Any:
    """Sums and selections pass; products are no selection."""
    if {"prod", "multiply"} & {a for a in (*call.args, *call.kwargs.values()) if isinstance(a, str)}:
        raise call.refuse("it multiplies activations")
    return pass_through(call)


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
    bias = _bias(call)
    added = bias is not None and bias.requires_grad
    if len(call.activations) - added > 1:
        if added:
            raise call.refuse("it adds an activation to a product of two")
        return product(call)
    out = _weighed(call, call.run(), without=None if added else bias)
    return out if bias is not None else degrees.still(call, out)


def _bias(call: Call) -> Tensor | None:
    """The term that is added to the product, in a shape that fits the output."""
    adds_first = call.name.startswith(("add", "badd"))  # addmm(bias, x, weight) and its kin
    position = 0 if adds_first else 2
    value = call.args[position] if len(call.args) > position else call.kwargs.get("bias")
    if not isinstance(value, Tensor) or value.requires_grad:
        return value if isinstance(value, Tensor) else None
    if adds_first:
        scaled: Tensor = value * call.kwargs.get("beta", 1)
        return scaled
    return value.reshape(-1, *[1] * int(call.name[-2])) if call.name.startswith("conv") else value


def batch_norm(call: Call) -> Any:
    """With stored statistics a linear layer; with those of the batch no rule fits."""
    names = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
    given = {**dict(zip(names, call.args, strict=False)), **call.kwargs}
    if given.get("training") or given.get("running_mean") is None:
        raise call.refuse("it normalises by the statistics of the batch")
    if len(call.activations) > 1:
        raise call.refuse("its weight or statistics depend on activations")
    x, eps = given["input"], given.get("eps", 1e-5)
    scale = torch.rsqrt(given["running_var"] + eps)
    scale = scale if given.get("weight") is None else scale * given["weight"]
    shift = -given["running_mean"] * scale
    shift = shift if given.get("bias") is None else shift + given["bias"]
    # Written out: on a CPU torch's own backward pass is wrong for a gradient whose channels come last.
    scale, shift = (value.reshape(-1, *[1] * (x.dim() - 2)) for value in (scale, shift))
    return _weighed(call, x * scale + shift, without=shift)


def _weighed(call: Call, out: Tensor, *, without: Tensor | None = None) -> Tensor:
    plan = call.plan
    if plan.bias == "printed" and without is not None:
        z = (out - without).detach()
        return weigh_gradient(out, epsilon_factor(z, plan.epsilon, value=out.detach()))
    return weigh_gradient(out, epsilon_factor(out.detach(), plan.epsilon)) if plan.epsilon else out


def matrix_product(call: Call) -> Any:
    """Linear in its one activation, or a product of two."""
    return product(call) if len(call.activations) > 1 else degrees.still(call, _keep_site(call, _weighed(call, call.run())))


def _keep_site(call: Call, out: Tensor) -> Tensor:
    return attention.values_met(call, out)


def add(call: Call) -> Any:
    """A sum: the gradient, times s / (s + epsilon sign(s)); a constant keeps its share, a mask takes none."""
    if call.name not in REDUCTION and _is_chain(call) and not all(_trace(t).linear for t in call.activations):
        return pointwise(call)
    _settle(call)
    out = call.run()
    first = next((t for t in call.activations if _trace(t).product is not None), call.activations[0])
    trace = _trace(first)
    if call.plan.epsilon and not _adds_a_mask(call) and not (trace.product is not None and attention.product_rule(call) == "gradient"):
        out = _weighed(call, out)
    mean_square = (trace.mean_square and len(call.activations) == 1) or (call.name in REDUCTION and trace.square)
    if mean_square or trace.product is not None:
        mark(out, call.mode.fresh.but(product=trace.product, factor=trace.factor, mean_square=mean_square))
    out = degrees.summed(call, out)
    if call.mode.embedding_sum is not None and len(call.activations) == 1 and call.activations[0] is call.mode.embedding_sum:
        call.mode.embedding_sum = out
    return out


def _adds_a_mask(call: Call) -> bool:
    constants = [a for a in call.args if isinstance(a, Tensor) and not a.requires_grad and a.is_floating_point()]
    return any(attention.is_mask(constant) for constant in constants)


def _origin(tensor: Tensor) -> Tensor:
    origin = _trace(tensor).origin
    return tensor if origin is None else origin


def _is_chain(call: Call) -> bool:
    """All arguments are pointwise functions of one tensor, or plain numbers."""
    origin = _origin(call.activations[0])
    values = [v for v in (*call.args, *call.kwargs.values()) if isinstance(v, Tensor)]
    # prelu's slopes do not move f(0) = 0, whatever their shape.
    return all((_origin(v) is origin) if v.requires_grad else v.dim() == 0 or call.name == "prelu" for v in values) and all(
        v.shape == origin.shape for v in values if v.requires_grad
    )


def _settle(call: Call) -> None:
    """Where a pointwise expression ends, it must be one that the identity rule can take."""
    for tensor in call.activations:
        trace = _trace(tensor)
        if trace.at_zero != 0.0:
            raise call.not_zero(trace)


def scale(call: Call) -> Any:
    """mul and div: a scaling by a constant, a product of two activations, or part of a pointwise expression."""
    acts = call.activations
    if call.kwargs.get("rounding_mode"):
        raise call.refuse("it rounds")
    if _is_chain(call):
        chain = [_trace(t) for t in acts]
        by_number = len(acts) == 1 and call.name != "rdiv" and not (call.name == "div" and call.args[0] is not acts[0])
        if not (by_number and chain[0].linear):
            return pointwise(call)
        out = call.run()
        factor = chain[0].factor * _number(call)
        if chain[0].unweighted is not None:
            raw = call.run(*(chain[0].unweighted if a is acts[0] else a for a in call.args))
            out = weigh_gradient(raw, epsilon_factor(raw.detach(), call.plan.epsilon, shares=2))
            return mark(out, chain[0].but(origin=None, unweighted=raw, factor=factor))
        return mark(out, chain[0].but(origin=_origin(acts[0]), factor=factor))
    _settle(call)
    if len(acts) == 1:
        if call.name in ("div", "rdiv") and not _divides_by_constant(call):
            raise call.refuse("it divides by an activation")
        out = call.run()
        trace = _trace(acts[0])
        return mark(out, call.mode.fresh.but(product=trace.product, factor=trace.factor, site=trace.site, degree=trace.degree))
    if call.name != "mul":
        raise call.refuse("it divides by an activation; only a norm's standard deviation may divide")
    return product(call)


def _number(call: Call) -> float:
    """The number by which a call scales its one activation."""
    if call.name == "neg":
        return -1.0
    numbers = [float(a) for a in call.args if isinstance(a, int | float) or (isinstance(a, Tensor) and not a.requires_grad)]
    return 1.0 if not numbers else 1.0 / numbers[0] if call.name == "div" else numbers[0]


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
    before = [_trace(t) for t in call.activations]
    settled = call.name in VANISHES_AT_ZERO and before[0].at_zero == 0.0
    at_zero = 0.0 if settled else float(call.run(*(_at_zero(a) for a in call.args)))
    culprit = next((t.culprit for t in before if t.culprit), call.name)
    out = identity_rule(origin, value, whole=settled)
    square = _is_square(call, before)
    return mark(
        out,
        call.mode.fresh.but(
            origin=origin,
            at_zero=at_zero,
            culprit=culprit,
            linear=False,
            square=square,
            product=before[0].product,
            degree=2 * _trace(origin).degree if square and call.plan.bilinear == "canonical" else 1,
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
    return out if call.plan.norm == "gradient" else mark(out.detach(), call.mode.fresh.but(held="normaliser", culprit=call.name))


def deviation(call: Call) -> Any:
    """Standard deviations and norms of activations are normalisers: constants that may only multiply or divide."""
    out = call.run()
    if call.plan.norm == "gradient":
        return out
    if call.name == "var":
        # The identity rule at each square (x - mean)^2: half of the gradient.
        return mark(scale_gradient(out, 0.5), call.mode.fresh.but(mean_square=True))
    return mark(out.detach(), call.mode.fresh.but(held="normaliser", culprit=call.name))


def norm(call: Call) -> Any:
    """Layer norm and RMS norm with the standard deviation as a constant, then as a linear layer."""
    if call.plan.norm == "gradient":
        return call.run()
    names: tuple[str, ...] = ("input", "normalized_shape", "weight", "bias", "eps")
    if call.name not in ("layer_norm", "rms_norm"):
        raise call.refuse("only layer norm and RMS norm have a rule")
    if len(call.activations) > 1:
        raise call.refuse("its weight or bias depends on activations")
    if call.name == "rms_norm":
        names = ("input", "normalized_shape", "weight", "eps")
    given = {**dict(zip(names, call.args, strict=False)), **call.kwargs}
    x, weight, bias = given["input"], given.get("weight"), given.get("bias")
    eps = given.get("eps")
    if eps is None:
        eps = torch.finfo(x.dtype).eps if call.name == "rms_norm" else 1e-5
    out = constant_std_norm(x, list(given["normalized_shape"]), weight, bias, eps, centered=call.name == "layer_norm")
    return _weighed(call, out, without=bias)


def number(call: Call) -> Any:
    """item, tolist, numpy: an activation becomes a number that cannot be followed. What the user does with outputs is another matter."""
    if call.mode.root is not None and not inside_a_module():
        return call.run()
    raise call.refuse("it makes a plain number of an activation, so that its relevance would be lost")


def computed_table(call: Call) -> Any:
    """A look-up in a table that was computed from activations."""
    raise call.refuse("it looks up a table that depends on activations")


def _table() -> dict[str, Rule]:
    found: dict[str, Rule] = {}
    for names, rule in (
        (operations.PASS, pass_through),
        (operations.LINEAR, linear),
        (operations.BATCH_NORM, batch_norm),
        (operations.MATRIX_PRODUCT, matrix_product),
        (operations.SUM, add),
        (operations.SCALE, scale),
        (operations.ACTIVATION | operations.POINTWISE, pointwise),
        (operations.NORM, norm),
        (operations.DEVIATION, deviation),
        (operations.SOFTMAX, attention.softmax),
        (operations.ATTENTION, attention.fused),
        (operations.DROPOUT, dropout),
        (operations.CUT, cut_off),
        (operations.NUMBER, number),
        (operations.CAST, cast),
        (frozenset({"scatter", "scatter_reduce"}), scatter),
        (operations.EMBEDDING, computed_table),
    ):
        found.update(dict.fromkeys(names, rule))
    return found


RULES = _table()

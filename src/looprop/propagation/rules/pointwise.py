"""Rules of sums, scalings and pointwise functions. A chain of them on one tensor is one activation, whoever wrote it
out.
"""

from typing import Any

import torch
from torch import Tensor

from looprop.propagation import chains, degrees, operations
from looprop.propagation.call import Call, Trace, mark, trace_known
from looprop.propagation.gradients import epsilon_factor, hold, identity_rule, scale_gradient, weigh_gradient
from looprop.propagation.rules import attention
from looprop.propagation.rules.base import rule
from looprop.propagation.rules.coefficients import carried, constant, goes_on, settle
from looprop.propagation.rules.linear import product, weighed
from looprop.propagation.rules.rotary import rotated

REDUCTION = ("sum", "mean")
SQUARES = "squares of activations (distances)"
VANISHES_AT_ZERO = operations.ACTIVATION - {"hardtanh"}


@rule(*operations.SUM)
def add(call: Call) -> Any:
    """A sum: the gradient, times s / (s + epsilon sign(s)); a constant keeps its share, a mask takes none."""
    if call.name not in REDUCTION and chains.goes_on(call):
        return pointwise(call)
    if settle(call):
        return call.mode.constant(call, call.args, call.kwargs)
    if _adds_the_identity(call):
        return constant(call, call.run())
    out = call.run()
    first = next((t for t in call.activations if trace_known(t).product is not None), call.activations[0])
    trace = trace_known(first)
    if (
        call.plan.epsilon
        and not _adds_a_mask(call)
        and not (trace.product is not None and attention.product_rule(call) == "gradient")
    ):
        out = weighed(call, out)
    mean_square = (trace.mean_square and len(call.activations) == 1) or (call.name in REDUCTION and trace.square)
    notes: dict[str, Any] = {}
    pairs = next((note for t in call.activations if (note := trace_known(t).pairs)), "")
    if mean_square or trace.product is not None or pairs:
        notes = {"product": trace.product, "factor": trace.factor, "mean_square": mean_square, "pairs": pairs}
    if call.name not in REDUCTION and (found := chains.summed(call)) is not None:
        notes |= {"root": found[0], "at_root_zero": found[1]}
    if notes:
        mark(out, call.mode.fresh.but(**notes))
    out = degrees.summed(call, out)
    if _adds_to_the_embedding(call, out):
        call.mode.embedding_sum = out
    return out


def _adds_to_the_embedding(call: Call, out: Tensor) -> bool:
    """Whether something constant is added to the explained look-up: positions, token types. A mean over it (the
    beginning of a norm) is no sum with anything.
    """
    before = call.mode.embedding_sum
    return (
        before is not None
        and call.name in ("add", "sub")
        and len(call.activations) == 1
        and call.activations[0] is before
        and out.shape == before.shape
    )


def _adds_the_identity(call: Call) -> bool:
    """Whether a matrix of activations becomes I + A, the inverse with which a delta net undoes its own updates: a
    coefficient, as where the same inverse comes from a triangular solve. Attention plus its own place is none.
    """
    if call.name in REDUCTION or len(call.args) != 2 or call.plan.product == "gradient":
        return False
    (matrix, *others), other = call.activations, call.args[1]
    if others or not isinstance(other, Tensor) or other.requires_grad or trace_known(matrix).site is not None:
        return False
    square = other.dim() == 2 and 1 < other.shape[0] == other.shape[1] and matrix.shape[-2:] == other.shape
    return square and torch.equal(other, torch.eye(len(other), dtype=other.dtype, device=other.device))


def _adds_a_mask(call: Call) -> bool:
    constants = [a for a in call.args if isinstance(a, Tensor) and not a.requires_grad and a.is_floating_point()]
    return any(attention.is_mask(constant) for constant in constants)


@rule(*operations.SCALE)
def scale(call: Call) -> Any:
    """mul and div: a scaling by a constant, a product of two activations, or part of a pointwise expression."""
    acts = call.activations
    if call.kwargs.get("rounding_mode"):
        raise call.refuse("it rounds")
    if chains.one_activation(call):
        chain = [trace_known(t) for t in acts]
        by_number = len(acts) == 1 and call.name != "rdiv" and not (call.name == "div" and call.args[0] is not acts[0])
        if not (by_number and chain[0].linear):
            return pointwise(call)
        out = call.run()
        factor = chain[0].factor * _number(call)
        if chain[0].unweighted is not None:
            raw = call.run(*(chain[0].unweighted if a is acts[0] else a for a in call.args))
            out = weigh_gradient(raw, epsilon_factor(raw.detach(), call.plan.epsilon, shares=2))
            return mark(out, chain[0].but(origin=None, unweighted=raw, factor=factor))
        scaled = chains.extended(call, vanishes=True)
        note = chain[0].but(origin=scaled.origin, root=scaled.root, at_root_zero=scaled.at_root_zero, factor=factor)
        return mark(out, note)
    if settle(call):
        return call.mode.constant(call, call.args, call.kwargs)
    acts = call.activations
    if len(acts) == 1:
        if call.name in ("div", "rdiv") and not _divides_by_constant(call):
            raise call.refuse("it divides by an activation")
        out = rotated(call) if any(t.held == "rotation" for t in call.held) else call.run()
        if goes_on(call):
            return carried(call, out)
        trace = trace_known(acts[0])
        carried_on = {name: getattr(trace, name) for name in ("product", "factor", "site", "degree", "pairs")}
        return mark(out, call.mode.fresh.but(**carried_on))
    if call.name != "mul":
        raise call.refuse("it divides by an activation; only a norm's standard deviation may divide")
    return product(call)


def _number(call: Call) -> float:
    """The number by which a call scales its one activation."""
    if call.name == "neg":
        return -1.0
    numbers = [
        float(a)
        for a in call.args
        if isinstance(a, int | float) or (isinstance(a, Tensor) and not a.requires_grad and not a.is_complex())
    ]
    return 1.0 if not numbers else 1.0 / numbers[0] if call.name == "div" else numbers[0]


def _divides_by_constant(call: Call) -> bool:
    numerator = call.args[1] if call.name == "rdiv" else call.args[0]
    return isinstance(numerator, Tensor) and numerator.requires_grad


@rule(*operations.ACTIVATION, *operations.POINTWISE)
def pointwise(call: Call) -> Any:
    """A pointwise expression of one tensor is one activation: identity rule between the tensor and the whole of it."""
    first = trace_known(call.activations[0])
    if call.activations[0].is_complex() and call.plan.activation != "gradient":
        raise call.refuse("a function of complex numbers")
    if call.name in ("sqrt", "rsqrt", "pow") and first.mean_square:
        return _normaliser(call)
    if call.plan.activation == "gradient":
        square = chains.one_activation(call) and _is_square(call, [trace_known(t) for t in call.activations])
        pairs = SQUARES if square else first.pairs
        return mark(call.run(), call.mode.fresh.but(square=square, product=first.product, pairs=pairs))
    if not chains.one_activation(call):
        if settle(call):
            return call.mode.constant(call, call.args, call.kwargs)
        raise call.refuse("its arguments are not pointwise functions of one activation")
    vanishes = call.name in VANISHES_AT_ZERO
    chain = chains.extended(call, vanishes=vanishes)
    value = call.run(*(a.detach() if isinstance(a, Tensor) else a for a in call.args))
    before = [trace_known(t) for t in call.activations]
    culprit = next((t.culprit for t in before if t.culprit), call.name)
    out = identity_rule(chain.origin, value, whole=vanishes and chain.at_zero == 0.0 and chain.root is None)
    square = _is_square(call, before)
    return mark(
        out,
        call.mode.fresh.but(
            **chain._asdict(),
            culprit=culprit,
            linear=False,
            square=square,
            product=before[0].product,
            pairs=SQUARES if square else before[0].pairs,
            degree=2 * trace_known(chain.origin).degree if square and call.plan.bilinear == "canonical" else 1,
        ),
    )


def _is_square(call: Call, before: list[Trace]) -> bool:
    if not all(t.linear for t in before):
        return False
    return (
        call.name == "square" or (call.name == "mul" and len(before) == 2) or (call.name == "pow" and call.args[1] == 2)
    )


def _normaliser(call: Call) -> Any:
    """The root of a mean of squares is a norm's standard deviation: a constant."""
    if call.name == "pow" and call.args[1] not in (0.5, -0.5):
        raise call.refuse("a power of a mean of squares other than its root or inverse root")
    out = call.run()
    return (
        out
        if call.plan.norm == "gradient"
        else mark(hold(out), call.mode.fresh.but(held="normaliser", culprit=call.name))
    )


@rule(*operations.DEVIATION)
def deviation(call: Call) -> Any:
    """Standard deviations and norms of activations are normalisers: constants that may only multiply or divide."""
    out = call.run()
    if call.plan.norm == "gradient":
        return out
    if call.name == "var":
        # The identity rule at each square (x - mean)^2: half of the gradient.
        return mark(scale_gradient(out, 0.5), call.mode.fresh.but(mean_square=True))
    return mark(hold(out), call.mode.fresh.but(held="normaliser", culprit=call.name))

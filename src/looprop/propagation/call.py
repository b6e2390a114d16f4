"""One torch function call as the rules see it, and the notes that the engine leaves on tensors.

Every tensor that comes from the explained one carries a `Trace`: what the engine has to remember about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor

from looprop.errors import RuleError, UnseenError
from looprop.propagation import operations
from looprop.propagation.cuts import same_memory, strictest
from looprop.propagation.known_functions import known_function
from looprop.propagation.location import module_path
from looprop.propagation.plan import Plan

if TYPE_CHECKING:
    from looprop.propagation.mode import RelevanceMode

Rule = Callable[["Call"], Any]
_ATTRIBUTE = "_looprop_trace"
# Arguments that rules look for by position.
_BY_POSITION = ("input", "other", "exponent")
_MAKES_INTEGERS = operations.INTEGER | operations.CAST

CUT_OFF = (
    "it takes activations out of the graph (detach, no_grad, inference mode, a custom autograd function), so that "
    "relevance would be lost"
)
INTEGERS = "it makes whole numbers of an activation's values, so that relevance would be lost"
CHANGED = "its memory is that of an activation, which would change where neither torch nor the engine can see it"


class Trace(NamedTuple):
    """A note on one tensor; hundreds are made in every pass, and a named tuple is the quickest to copy.

    token: stands for the mode that saw the tensor being made; a tensor that carries gradient without it came from an
        operation that the engine could not see.
    origin: the tensor of which this one is a pointwise function (a chain of pointwise operations is one activation).
    at_zero: the value of that pointwise function at 0; the identity rule needs it to be 0.
    root: the tensor of which the origin is one plus a number. Where the expression ends, the number is a constant of a
        sum; where it meets other functions of the root, all of it is one pointwise function of the root.
    at_root_zero: the value of that pointwise function where the root is 0.
    culprit: the operation that made `at_zero` differ from 0, or that made `held`.
    linear: the pointwise function is a mere scaling, its graph is right as it is.
    square: the pointwise function is a square (the beginning of a norm).
    mean_square: a sum or mean of squares (the next part of a norm).
    held: why a tensor that came from activations carries no gradient. "normaliser": a standard deviation or its
        inverse, which may only multiply or divide; "coefficient": a gate, a router's weight, a decay of a state, which
        may only multiply, divide or select; "rotation": sines and cosines of positions, which come from no activation,
        where the plan gives positions a share; "weights": attention weights under CP-LRP; "cut": made with gradients
        turned off; "integer": whole numbers made of its values.
    product: a product of two activations, on its way to a softmax; holds the two factors.
    factor: the number by which that product has been scaled since.
    unweighted: that product before its epsilon factor, for a scale that is still to come.
    pairs: what two activations made this tensor other than a matrix product; a softmax over it would be an attention
        that is not seen.
    site: the attention site whose weights this tensor holds.
    router: a coefficient that chooses among experts, not a gate.
    degree: of how many activations this tensor is a product, linear operations aside; used by the canonical form of
        products.
    versions: of the tensor, its origin and its root when the note was made; a change in place leaves them behind.
    """

    token: object
    origin: Tensor | None = None
    at_zero: float = 0.0
    root: Tensor | None = None
    at_root_zero: float = 0.0
    culprit: str = ""
    linear: bool = True
    square: bool = False
    mean_square: bool = False
    held: Literal["", "rotation", "normaliser", "coefficient", "weights", "cut", "integer"] = ""
    product: tuple[Tensor, Tensor] | None = None
    factor: float = 1.0
    unweighted: Tensor | None = None
    pairs: str = ""
    site: int | None = None
    router: bool = False
    degree: int = 1
    versions: tuple[int, ...] | None = None

    def but(self, **changes: Any) -> Trace:
        """A copy with some entries changed."""
        return self._replace(**changes)


def trace_of(tensor: Tensor) -> Trace | None:
    """The note on a tensor, if there is one, without what a later change in place has made untrue."""
    trace: Trace | None = getattr(tensor, _ATTRIBUTE, None)
    if trace is None or trace.versions is None or trace.versions == _versions(tensor, trace):
        return trace
    return trace.but(origin=None, root=None, square=False, mean_square=False, unweighted=None, versions=None)


def trace_known(tensor: Tensor) -> Trace:
    """The note on an activation: the mode refuses those without one before any rule sees them."""
    trace = trace_of(tensor)
    assert trace is not None
    return trace


def mark(tensor: Tensor, trace: Trace) -> Tensor:
    """Leave a note on a tensor."""
    origin, root = trace.origin, trace.root
    if origin is not None or root is not None or trace.square or trace.mean_square or trace.unweighted is not None:
        trace = trace._replace(versions=_versions(tensor, trace))
    elif trace.versions is not None:
        trace = trace._replace(versions=None)
    setattr(tensor, _ATTRIBUTE, trace)
    return tensor


def _versions(tensor: Tensor, trace: Trace) -> tuple[int, ...]:
    return tuple(-1 if t is None else t._version for t in (tensor, trace.origin, trace.root))


class Call:
    """What was called with what, and which of its arguments are activations.

    args, kwargs: what does not come from the explained tensor is taken as a constant: parameters, above all.
    activations: the tensors that depend on what is explained.
    held: notes on constants that were made from activations (normalisers, the attention weights of CP-LRP).
    """

    __slots__ = ("activations", "args", "function", "held", "kwargs", "mode", "name")

    def __init__(
        self, mode: RelevanceMode, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self.mode, self.name, self.function = mode, name, function
        self.activations: list[Tensor] = []
        self.held: list[Trace] = []
        taken = [self._taken(value) for value in args]
        if kwargs:
            kwargs = {key: self._taken(value) for key, value in kwargs.items()}
            if len(taken) < 2:
                taken += [kwargs.pop(key) for key in _BY_POSITION if key in kwargs]
        self.args, self.kwargs = tuple(taken), kwargs

    def _taken(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            if value.requires_grad:
                if trace_of(value) is None and not self.mode.reaches(value):
                    value = value.detach()
                    if self.mode.cuts:
                        self._note_held(value)
                    return value
                self.activations.append(value)
            else:
                self._note_held(value)
        elif type(value) in (list, tuple):
            return type(value)([self._taken(v) for v in value])
        elif isinstance(value, (list, tuple)):
            self.activations += [t for t in tensors_in((value,)) if t.requires_grad]
        return value

    def _note_held(self, constant: Tensor) -> None:
        trace = trace_of(constant)
        if self.mode.cuts:
            trace = strictest(trace, self.mode.cuts.of(constant))
        if trace is not None and trace.held:
            self.held.append(trace)

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self.mode.plan

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the torch function itself, with its own arguments unless others are given."""
        return self.function(*(args or self.args), **(kwargs or self.kwargs))

    def check(self) -> bool:
        """Refuse what came from an unseen operation; whether there are pointwise functions that the identity rule
        cannot take.
        """
        if self.mode.plain:
            return False
        uneven = False
        for tensor in tuple(self.activations):
            trace = trace_of(tensor)
            if trace is not None and trace.held == "cut":
                if (known := known_function(tensor)) is None:
                    raise self.refuse(CUT_OFF, culprit=trace.culprit)
                self.replace(tensor, mark(known, self.mode.fresh))
                continue
            if trace is None or trace.token is not self.mode.fresh.token:
                raise self._unseen(tensor)
            if trace.at_zero != 0.0:
                uneven = True
        return uneven

    def replace(self, old: Tensor, new: Tensor) -> None:
        """Put another tensor in the place of an activation, in the arguments and in the list of activations."""

        def put(value: Any) -> Any:
            if value is old:
                return new
            return type(value)(map(put, value)) if type(value) in (list, tuple) else value

        self.args, self.kwargs = tuple(map(put, self.args)), {key: put(value) for key, value in self.kwargs.items()}
        if new.requires_grad:
            self.activations = [new if t is old else t for t in self.activations]
        else:
            self.activations = [t for t in self.activations if t is not old]
            self.held.append(trace_known(new))

    def check_held(self) -> None:
        """Normalisers and coefficients may only multiply or divide, and what was computed without gradient may not come
        back.
        """
        for trace in self.held:
            if trace.held in ("cut", "integer"):
                raise self.refuse(CUT_OFF if trace.held == "cut" else INTEGERS, culprit=trace.culprit)
            if trace.held == "normaliser" and self.name not in operations.TAKES_NORMALISER:
                raise self.refuse(
                    "norms and standard deviations are held constant and may only multiply or divide, but one reaches "
                    f"{self.name!r}",
                    culprit=trace.culprit,
                )
            if (
                trace.held == "coefficient"
                and self.name not in operations.TAKES_COEFFICIENT
                and not (self.name in operations.SUM and self._adds_zero())
            ):
                raise self.refuse(
                    "what it makes of activations is held constant (a gate, a router, the decay of a state) and may "
                    f"only multiply, divide or select, but it reaches {self.name!r}",
                    culprit=trace.culprit,
                )

    def _adds_zero(self) -> bool:
        """Whether the coefficients among the terms of a sum are zero: the empty state at which a recurrence begins."""
        constants = [t for t in tensors_in((*self.args, *self.kwargs.values())) if not t.requires_grad]
        return not any(t.any() for t in constants if (trace := trace_of(t)) is not None and trace.held == "coefficient")

    def _unseen(self, tensor: Tensor) -> UnseenError:
        maker = getattr(tensor.grad_fn, "name", lambda: "unknown")()
        return UnseenError(
            f"a tensor that reaches {self.name!r} in {module_path(self.mode.root)} was made by an operation that the "
            f"engine cannot see ({maker}): compiled modules, custom autograd functions, fused kernels (flash "
            "attention) and quantised layers cannot be explained by rules. Load the model uncompiled, in full "
            "precision, with attn_implementation='sdpa' or 'eager'"
        )

    def refuse(self, reason: str, *, culprit: str = "") -> RuleError:
        """The error for an operation that no rule covers; culprit: an earlier operation that is to blame."""
        name = culprit or self.name
        return RuleError(
            f"no relevance rule for {name!r} in {module_path(self.mode.root)}: {reason}. "
            f"Add a rule with Plan(rules={{{name!r}: my_rule}}) or let its plain gradient pass with "
            f"Plan(allow={{{name!r}}})"
        )

    def not_zero(self, trace: Trace) -> RuleError:
        """The error for a pointwise function that the identity rule cannot take."""
        return self.refuse(
            f"the identity rule needs f(0) = 0, and the pointwise function that reaches {self.name!r} has f(0) = "
            f"{trace.at_zero:g}",
            culprit=trace.culprit,
        )


def cut_off(call: Call) -> Any:
    """Run a call whose result carries no gradient, and note on it that it may not come back to activations."""
    return note_cut(call, call.run())


def note_cut(call: Call, out: Any) -> Any:
    """Note on a result, and on the memory that it lives in, that it may not come back to activations."""
    for tensor in tensors_in((out,)):
        shared = any(same_memory(tensor, activation) for activation in call.activations)
        if shared or tensor.is_floating_point() or tensor.is_complex():
            call.mode.note(tensor, call.mode.fresh.but(held="cut", culprit=call.name), shared=shared)
        elif call.name in _MAKES_INTEGERS and tensor.dtype is not torch.bool:
            call.mode.note(tensor, call.mode.fresh.but(held="integer", culprit=call.name))
    return out


def tensors_in(values: tuple[Any, ...]) -> Iterator[Tensor]:
    """The tensors among some values and the lists and tuples below them."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(tuple(value))

"""One torch function call as the rules see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from torch import Tensor

from looprop.errors import RuleError
from looprop.propagation.location import module_path
from looprop.propagation.plan import Plan
from looprop.propagation.trace import Trace, mark, trace_of

if TYPE_CHECKING:
    from looprop.propagation.mode import RelevanceMode

Rule = Callable[["Call"], Any]
# Arguments that rules look for by position.
_BY_POSITION = ("input", "other", "exponent")

CUT_OFF = (
    "it takes activations out of the graph (detach, no_grad, inference mode, a custom autograd function), so that "
    "relevance would be lost"
)


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
                    return value.detach()
                self.activations.append(value)
            elif (trace := trace_of(value)) is not None and trace.held:
                self.held.append(trace)
        elif type(value) in (list, tuple):
            return type(value)([self._taken(v) for v in value])
        elif isinstance(value, (list, tuple)):
            self.activations += [t for t in tensors_in((value,)) if t.requires_grad]
        return value

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self.mode.plan

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the torch function itself, with its own arguments unless others are given."""
        return self.function(*(args or self.args), **(kwargs or self.kwargs))

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
    out = call.run()
    for tensor in tensors_in((out,)):
        if tensor.is_floating_point():
            mark(tensor, call.mode.fresh.but(held="cut", culprit=call.name))
    return out


def tensors_in(values: tuple[Any, ...]) -> Iterator[Tensor]:
    """The tensors among some values and the lists and tuples below them."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(tuple(value))

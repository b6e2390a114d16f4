"""The mode under which a model runs so that its backward pass propagates relevance.

It sees every torch function that the model calls and hands it to the rule for that operation. It patches nothing:
leaving the `with` block, also by an exception, is all it takes to be without it.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from looprop.engine import operations
from looprop.engine.location import module_path
from looprop.engine.plan import Plan
from looprop.engine.trace import Trace, mark, trace_of
from looprop.errors import RuleError, UnseenError

Rule = Callable[["Call"], Any]


class Call:
    """One torch function call: what was called with what, and which of its arguments are activations."""

    __slots__ = ("activations", "args", "function", "kwargs", "mode", "name")

    def __init__(self, mode: RelevanceMode, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.mode, self.name, self.function, self.args, self.kwargs = mode, name, function, args, kwargs
        self.activations: list[Tensor] = [t for t in tensors_in((*args, *kwargs.values())) if t.requires_grad]

    @property
    def plan(self) -> Plan:
        """The plan in force."""
        return self.mode.plan

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the torch function itself, with its own arguments unless others are given."""
        return self.function(*(args or self.args), **(kwargs or self.kwargs))

    def refuse(self, reason: str) -> RuleError:
        """The error for an operation that no rule covers."""
        return RuleError(
            f"no relevance rule for {self.name!r} in {module_path(self.mode.root)}: {reason}. "
            f"Add a rule with Plan(rules={{{self.name!r}: my_rule}}) or let its plain gradient pass with Plan(allow={{{self.name!r}}})"
        )


class RelevanceMode(TorchFunctionMode):
    """Runs a model with the rules of a plan in its backward pass.

    explained_weight: the embedding table whose look-up is the tensor to explain; it becomes a leaf of its own.
    record: keep queries, keys, values and outputs of every attention site.
    """

    def __init__(self, plan: Plan, *, root: nn.Module | None = None, explained_weight: Tensor | None = None, record: bool = False) -> None:
        super().__init__()
        from looprop.engine.attention import AttentionSite

        self.plan, self.root, self.explained_weight, self.record = plan, root, explained_weight, record
        self.explained: Tensor | None = None
        self.embedding_sum: Tensor | None = None
        self.sites: list[AttentionSite] = []
        self.fresh = Trace(token=self)
        self._handlers: dict[Any, Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]] = {}

    def explain(self, tensor: Tensor) -> Tensor:
        """A leaf with the values of a tensor, from which everything counts as activation."""
        return mark(tensor.detach().requires_grad_(), self.fresh)

    def finish(self, output: Tensor) -> None:
        """Check the model's output before relevance starts from it."""
        self.plan.check_layers(len(self.sites))
        if not output.requires_grad:
            raise RuleError("the output does not depend on the explained input through anything that carries gradient")
        self._check(Call(self, "output", None, (output,), {}), pointwise=False)

    def __torch_function__(self, function: Any, types_: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        handler = self._handlers.get(function)
        if handler is None:
            handler = self._handlers[function] = self._handler(function)
        return handler(function, args, kwargs or {})

    def _handler(self, function: Any) -> Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]:
        """How calls of a function are treated: decided once, by its name."""
        from looprop.engine.rules import RULES

        name, in_place = operations.operation_name(function)
        if name in operations.PLAIN or (name.startswith(("get:", "set:")) and name not in operations.PASS | operations.CUT):
            return _plain
        rule = self.plan.rules.get(name) or (_gradient if name in self.plan.allow else RULES.get(name))
        if rule is None and isinstance(function, types.FunctionType):
            inner = _without_dispatch(function)
            return lambda _, args, kwargs: self._enter(inner, args, kwargs)
        if self.plan.plain:
            rule = _forgiving(rule or _gradient)
        pointwise = name in operations.SCALE | operations.ACTIVATION | operations.POINTWISE | operations.SUM | {"to", "float", "clone"}

        def handle(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            call = Call(self, name, function, *self._without_parameters(args, kwargs))
            if not call.activations:
                return self._constant(call, args, kwargs)
            if not torch.is_grad_enabled():
                return call.run() if self.plan.plain else self._cut(call)
            self._check(call, pointwise=pointwise)
            if rule is None:
                out = call.run()
                if any(t.requires_grad for t in tensors_in((out,))):
                    raise call.refuse("it is unknown to the engine")
                return out
            if not in_place or name in operations.PASS:
                return self._marked(rule(call), args[0] if in_place or name == "setitem" else None)
            target = args[0]
            clone = mark(target.clone(), trace_of(target) or self.fresh) if target.requires_grad else target.clone()
            plain = getattr(torch, name, None) or getattr(torch.nn.functional, name)
            out = self._marked(rule(Call(self, name, plain, (clone, *call.args[1:]), call.kwargs)), None)
            target.copy_(out)
            return self._marked(mark(target, (trace_of(out) or self.fresh).but(origin=None)), target)

        return handle

    def _enter(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a composite Python function with the mode on: nothing inside goes unseen."""
        with self:
            return function(*args, **kwargs)

    def _without_parameters(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The same arguments with every leaf that is not explained taken as a constant: parameters, above all."""

        def constant(value: Any) -> Any:
            if isinstance(value, Tensor):
                return value.detach() if value.requires_grad and value.is_leaf and trace_of(value) is None else value
            if type(value) in (list, tuple) and any(isinstance(v, Tensor) for v in value):
                return type(value)(constant(v) for v in value)
            return value

        return tuple(constant(a) for a in args), {k: constant(v) for k, v in kwargs.items()} if kwargs else kwargs

    def _check(self, call: Call, *, pointwise: bool) -> None:
        """Refuse what came from an unseen operation, and pointwise functions that the identity rule cannot take."""
        if self.plan.plain:
            return
        for tensor in call.activations:
            trace = trace_of(tensor)
            if trace is None or trace.token is not self:
                raise UnseenError(
                    f"a tensor that reaches {call.name!r} in {module_path(self.root)} was made by an operation that the engine cannot see "
                    f"({getattr(tensor.grad_fn, 'name', lambda: 'unknown')()}): compiled modules, custom autograd functions, fused kernels "
                    "(flash attention) and quantised layers cannot be explained by rules. Load the model uncompiled, in full precision, "
                    "with attn_implementation='sdpa' or 'eager'"
                )
            if trace.at_zero != 0.0 and not pointwise:
                raise self._not_zero(call, trace)

    def _not_zero(self, call: Call, trace: Trace) -> RuleError:
        return Call(self, trace.culprit, None, (), {}).refuse(
            f"the identity rule needs a function with f(0) = 0, and the pointwise one that reaches {call.name!r} has f(0) = {trace.at_zero:g}"
        )

    def _constant(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call without activations: nothing to propagate, except where the explained look-up happens."""
        given = list(tensors_in((*args, *kwargs.values())))
        if call.name in operations.EMBEDDING and any(t is self.explained_weight for t in given):
            if self.explained is not None:
                raise RuleError(f"the explained embedding table is looked up more than once, in {module_path(self.root)}")
            self.explained = self.explain(call.run())
            # A clone, since models may add to it in place and a leaf forbids that.
            self.embedding_sum = mark(self.explained.clone(), self.fresh)
            return self.embedding_sum
        out = call.run()
        held = [trace for t in tensors_in((*call.args, *call.kwargs.values())) if (trace := trace_of(t)) is not None and trace.normaliser]
        if held and isinstance(out, Tensor):
            mark(out, held[0])
        return out

    def _cut(self, call: Call) -> Any:
        """An operation on activations while gradients are off."""
        if torch._C._current_graph_task_id() != -1:  # inside a backward pass
            return call.run()
        out = call.run()
        if call.name not in operations.PASS and any(t.is_floating_point() for t in tensors_in((out,))):
            raise call.refuse("the model runs it on activations with gradients turned off, so relevance would be lost")
        return out

    def _marked(self, out: Any, changed: Tensor | None) -> Any:
        for tensor in tensors_in((out,) if changed is None else (out, changed)):
            if tensor.requires_grad:
                trace = trace_of(tensor)
                if trace is None or trace.token is not self:
                    mark(tensor, self.fresh)
        base = None if changed is None else changed._base
        if base is not None and base.requires_grad and trace_of(base) is None:
            mark(base, self.fresh)
        return out


def tensors_in(values: tuple[Any, ...]) -> Iterator[Tensor]:
    """The tensors among some values and one level of lists below them (deeper for tuples of tuples)."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(tuple(value))


def _plain(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)


def _gradient(call: Call) -> Any:
    return call.run()


def _forgiving(rule: Rule) -> Rule:
    """A rule that lets the gradient pass where it would refuse."""

    def passing(call: Call) -> Any:
        try:
            for tensor in call.activations:
                if trace_of(tensor) is None:
                    mark(tensor, call.mode.fresh)
            return rule(call)
        except RuleError:
            return call.run()

    return passing


def _without_dispatch(function: types.FunctionType) -> Any:
    """A copy of one of torch's Python functions that goes straight to its body.

    The original begins by handing itself to the mode in force, so that with the mode on its body is never reached.
    """
    never = {name: lambda *_: False for name in ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")}
    copy = types.FunctionType(
        function.__code__, {**function.__globals__, **never}, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy

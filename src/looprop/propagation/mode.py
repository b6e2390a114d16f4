"""The mode under which a model runs so that its backward pass propagates relevance.

It sees every torch function that the model calls and hands it to the rule for that operation. It patches nothing:
leaving the `with` block, also by an exception, is all it takes to be without it.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from looprop.errors import PlanError, RuleError
from looprop.intercept.attention import AttentionSite
from looprop.intercept.operations import operation_name
from looprop.propagation import gradients, operations
from looprop.propagation.call import (
    CHANGED,
    CUT_OFF,
    Call,
    Rule,
    Trace,
    cut_off,
    mark,
    tensors_in,
    trace_known,
    trace_of,
)
from looprop.propagation.cuts import Cuts, strictest
from looprop.propagation.location import module_path
from looprop.propagation.modules import OWN_GRADIENTS, differentiates_itself
from looprop.propagation.plan import Plan
from looprop.propagation.rules.coefficients import as_coefficient, carried, goes_on, hold
from looprop.propagation.rules.table import RULES
from looprop.propagation.surrogate import surrogate_in_force

_NEVER = {
    name: lambda *_: False for name in ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
}


@dataclass(frozen=True, slots=True)
class _Handler:
    """How calls of one function are treated: decided once per mode, by the function's name.

    body: a composite Python function without its own dispatch; its inside is run with the mode on.
    leaves: its result is out of the engine's sight: its rule decides also on what is cut from the graph already.
    inplace: the position of an `inplace` argument; -1 for none.
    """

    name: str
    in_place: bool
    rule: Rule | None
    pointwise: bool
    leaves: bool
    body: Any = None
    inplace: int = -1


class RelevanceMode(TorchFunctionMode):
    """Runs a model with the rules of a plan in its backward pass.

    explained_weight: the embedding table whose look-up is the tensor to explain; it becomes a leaf of its own.
    record: keep queries, keys, values and outputs of every attention site.
    """

    def __init__(
        self, plan: Plan, *, root: nn.Module | None = None, explained_weight: Tensor | None = None, record: bool = False
    ) -> None:
        super().__init__()
        self.plan, self.root, self.explained_weight, self.record = plan, root, explained_weight, record
        self.plain = plan.plain
        self.explained: Tensor | None = None
        self.explained_inputs: list[Tensor] = []
        self.again = ""  # where the explained table was looked up for the second time
        self.looked_up: Tensor | None = None
        self.embedding_sum: Tensor | None = None
        self.position_shares: Tensor | None = None  # (B, T), all ones, where positions have taken a share
        self.sites: list[AttentionSite] = []
        self.fresh = Trace(token=object())
        self.cuts = Cuts()
        self._handlers: dict[Any, _Handler | None] = {}
        self._inside: list[Any] = []

    def explain(self, tensor: Tensor) -> Tensor:
        """A leaf with the values of a tensor, from which everything counts as activation."""
        leaf = tensor.clone() if tensor.is_inference() else tensor.detach()
        if (surrogate := surrogate_in_force()) is not None:
            leaf = surrogate.start(leaf)
        return mark(leaf.requires_grad_(), self.fresh)

    def shares_of_positions(self, like: Tensor) -> Tensor | None:
        """The shares (B, T) that positions take beside their embeddings, made when first asked for; None where no word
        embeddings are explained.
        """
        if self.position_shares is None and self.explained is not None and self.explained.dim() == 3:
            ones = torch.ones(self.explained.shape[:2], dtype=like.dtype, device=like.device)
            self.position_shares = ones.requires_grad_()
        return self.position_shares

    def reaches(self, tensor: Tensor) -> bool:
        """Whether a tensor that the engine did not see being made comes from the explained one; else it is made of
        parameters only.
        """
        seen: set[Any] = set()
        todo = [tensor.grad_fn]
        while todo:
            node = todo.pop()
            if node is not None and node not in seen:
                seen.add(node)
                if (
                    trace_of(getattr(node, "variable", tensor)) is not None
                ):  # the leaf at which a branch of the graph ends
                    return True
                todo.extend(before for before, _ in node.next_functions)
        return False

    def finish(self, output: Tensor) -> None:
        """Check the model's output before relevance starts from it."""
        layers = self.sites[-1].layer if self.sites else 0
        missing = [layer for layer in self.plan.layers if layer > layers]
        if missing:
            names = ", ".join(map(str, missing))
            raise PlanError(f"the plan names layer {names}, but this model has {layers} attention layers")
        last = Call(self, "output", None, (output,), {})
        if not output.requires_grad:
            last.check_held()
            raise RuleError("the output does not depend on the explained input through anything that carries gradient")
        if last.check():
            raise last.not_zero(trace_known(output))

    def __torch_function__(
        self, function: Any, types_: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        try:
            handler = self._handlers[function]
        except KeyError:
            handler = self._handlers[function] = self._handler(function)
        if handler is None:
            return function(*args, **(kwargs or {}))
        return self._handle(handler, function, args, kwargs or {})

    def _handler(self, function: Any) -> _Handler | None:
        """None for functions that are none of the engine's business."""
        name, in_place = operation_name(function)
        if function in OWN_GRADIENTS:
            raise differentiates_itself()
        in_place = in_place or name == "setitem" or name.startswith("set:")
        if name in operations.PLAIN or (name.startswith(("get:", "set:")) and name not in operations.PROPERTIES):
            return None
        rule = self.plan.rules.get(name, RULES.get(name))
        if name in self.plan.allow:
            rule = _gradient if rule is None or name in operations.ALLOWED_WHOLLY else _forgiving(rule)
        elif self.plain:
            rule = _forgiving(rule or _gradient)
        body, inplace = None, -1
        if isinstance(function, types.FunctionType):
            parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
            if "inplace" in parameters and name not in operations.DROPOUT:
                inplace = parameters.index("inplace")
            unknown = name not in RULES and name not in self.plan.rules and name not in self.plan.allow
            if inplace >= 0 or unknown:
                body = _without_dispatch(function)
        leaves = name in operations.NUMBER or name in operations.HOOK
        return _Handler(name, in_place, rule, name in operations.GOES_ON, leaves, body, inplace)

    def _handle(self, handler: _Handler, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name, rule = handler.name, handler.rule
        call = Call(self, name, function, args[1:] if name in operations.FILL else args, kwargs)
        if name in operations.FILL:
            call.args = (args[0], *call.args)  # of which only the shape is taken
        if handler.leaves and rule is not None and (call.activations or call.held) and not self.plain:
            return rule(call)
        if handler.in_place and args and isinstance(args[0], Tensor) and args[0] is not call.args[0]:
            return self._parameter_changed(call, args, kwargs)
        if not call.activations or (name in operations.LIKE and not call.args[0].requires_grad):
            return self.constant(call, args, kwargs, in_place=handler.in_place)
        if not torch.is_grad_enabled():
            return call.run() if self.plain else self._cut(call, in_place=handler.in_place)
        if handler.body is not None and (
            handler.inplace < 0 or kwargs.get("inplace") or (len(args) > handler.inplace and args[handler.inplace])
        ):
            return self._enter(handler.body, call, args, kwargs)
        if call.check() and (call.held or not handler.pointwise):
            hold(call)
            if not call.activations:
                return self.constant(call, call.args, call.kwargs)
            if goes_on(call) and name in operations.PASS:
                return carried(call, call.run())
        if rule is None:
            return self._unknown(call)
        if call.held and not self.plain:
            call.check_held()
        if not handler.in_place or name in operations.PASS:
            return self._marked(rule(call), args[0] if handler.in_place else None)
        target = args[0]
        clone = mark(target.clone(), trace_of(target) or self.fresh) if target.requires_grad else target.clone()
        plain = getattr(torch, name, None) or getattr(torch.nn.functional, name, function)
        out = self._marked(rule(Call(self, name, plain, (clone, *call.args[1:]), call.kwargs)), None)
        target.copy_(out)
        trace = trace_of(out) or self.fresh
        if trace.held == "cut" and not self.plain:  # detach_ leaves nothing that could be told from an activation
            raise call.refuse(CUT_OFF)
        if trace.held and target.requires_grad:
            trace = as_coefficient(trace)
        root = trace.root if trace.product is None else None  # what a product was before it was changed is gone
        return self._marked(mark(target, trace.but(origin=None, root=root, unweighted=None)), target)

    def _unknown(self, call: Call) -> Any:
        """A call that has no rule: harmless if all it gives are choices or truth values."""
        out = None if "::" in call.name else call.run()  # an operator of another library may change its arguments
        floating = any(t.is_floating_point() or t.is_complex() for t in tensors_in((out,)))
        if "::" in call.name or floating or isinstance(out, float):
            raise call.refuse("it is unknown to the engine")
        return out

    def _enter(self, body: Any, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a composite Python function with the mode on: nothing inside goes unseen."""
        if call.function in self._inside:  # it asked for dispatch again, its body was never reached
            raise call.refuse("the engine cannot look inside it")
        self._inside.append(call.function)
        try:
            with self:
                return body(*args, **kwargs)
        finally:
            self._inside.pop()

    def inside(self, name: str) -> bool:
        """Whether the body of one of torch's Python functions is running."""
        return any(function.__name__ == name for function in self._inside)

    def note(self, tensor: Tensor, trace: Trace, *, shared: bool = False) -> None:
        """Note on a tensor, and on the memory that it lives in, that it was made of activations and carries no
        gradient; shared: that memory is an activation's.
        """
        mark(tensor, trace)
        self.cuts.add(tensor, trace, shared=shared)

    def _parameter_changed(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A parameter changed in place is torch's own business, unless it takes in what comes from activations."""
        out = call.function(*args, **kwargs)
        if (call.activations or call.held) and not self.plain:
            self.cuts.add(args[0], strictest(*call.held) or self.fresh.but(held="cut", culprit=call.name))
        return out

    def constant(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], *, in_place: bool = False) -> Any:
        """A call without activations: nothing to propagate, except where the explained look-up happens."""
        if call.name in operations.EMBEDDING and any(
            t is self.explained_weight for t in tensors_in((*args, *kwargs.values()))
        ):
            leaf = self.explain(call.run())
            self.explained_inputs.append(leaf)
            # A clone, since models may add to it in place and a leaf forbids that.
            looked_up = mark(leaf.clone(), self.fresh)
            if len(self.explained_inputs) == 1:
                self.explained, self.looked_up, self.embedding_sum = leaf, looked_up, looked_up
            elif not self.again:
                self.again = module_path(self.root)
            return looked_up
        if call.name in operations.DROPOUT:
            return call.args[0]
        if call.name in ("cos", "sin") and self.plan.rotary == "halves":
            return mark(call.run(), self.fresh.but(held="rotation", culprit=call.name))
        return call.run() if not call.held or self.plain else self._made_of_held(call, in_place=in_place)

    def _made_of_held(self, call: Call, *, in_place: bool) -> Any:
        """A call without activations, but with constants that were made of them: what it gives is such a constant."""
        trace = strictest(*call.held)
        assert trace is not None
        # An operator of another library may change whatever it is given.
        anything = (*call.args, *call.kwargs.values()) if "::" in call.name else ()
        changed = tuple(tensors_in((*call.args[:in_place], call.kwargs.get("out"), *anything)))
        if any(self.cuts.shared(tensor) for tensor in changed):
            raise call.refuse(CHANGED, culprit=trace.culprit)
        if call.name not in operations.KEEPS_HELD and trace.held == "normaliser":
            call.check_held()
        out = call.run()
        integers = trace.held == "integer" or call.name in operations.INTEGER | operations.CAST
        for tensor in (*tensors_in((out,)), *changed):
            if tensor.is_floating_point() or tensor.is_complex() or (integers and tensor.dtype is not torch.bool):
                mark(tensor, trace)
                if changed or trace.held in ("cut", "integer"):
                    self.cuts.add(tensor, trace)
        return out

    def _cut(self, call: Call, *, in_place: bool) -> Any:
        """An operation on activations while gradients are off: harmless as long as its
        result is never used with them.
        """
        if (
            torch._C._current_graph_task_id() != -1 or call.name in self.plan.allow
        ):  # inside a backward pass, or allowed
            return call.run()
        if in_place and (call.args[0] is call.activations[0] or self.cuts.shared(call.args[0])):
            raise call.refuse(CUT_OFF)
        return cut_off(call)

    def _marked(self, out: Any, changed: Tensor | None) -> Any:
        tensors = (out,) if isinstance(out, Tensor) else tensors_in((out,))
        for tensor in tensors if changed is None else (*tensors, changed):
            if tensor.requires_grad:
                trace = trace_of(tensor)
                if trace is None or trace.token is not self.fresh.token or trace.held:
                    mark(tensor, self.fresh)
        base = None if changed is None else changed._base
        if base is not None and base.requires_grad and trace_of(base) is None:
            mark(base, self.fresh)
        return out


def _gradient(call: Call) -> Any:
    return gradients.hold(call.activations[0]) if call.name in operations.CUT else call.run()


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
    copy = types.FunctionType(
        function.__code__,
        {**function.__globals__, **_NEVER},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy

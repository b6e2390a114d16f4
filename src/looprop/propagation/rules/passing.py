"""Rules of operations that select, copy, cut off or look up: relevance follows the gradient, or the operation is
refused.
"""

from typing import Any

import torch
from torch import Tensor

from looprop.propagation import chains, degrees, operations
from looprop.propagation.call import Call, cut_off, mark, note_cut, trace_known
from looprop.propagation.location import inside_a_module
from looprop.propagation.rules.base import rule
from looprop.propagation.rules.coefficients import constant, settle

SCATTER = frozenset({"scatter", "scatter_reduce"})

rule(*operations.CUT, *operations.INTEGER)(cut_off)


@rule(*(operations.PASS - operations.CAST - operations.CHOICE - SCATTER))
def pass_through(call: Call) -> Any:
    """Reshaping, selecting, masking: relevance follows the gradient."""
    out = call.run()
    first = trace_known(call.activations[0])
    if call.name == "view" and not out.requires_grad:  # the same bits as whole numbers
        return note_cut(call, out)
    if isinstance(out, Tensor) and out.requires_grad and first is not call.mode.fresh:
        mark(
            out,
            call.mode.fresh.but(
                product=first.product,
                factor=first.factor,
                pairs=first.pairs,
                site=first.site,
                mean_square=first.mean_square,
                square=first.square,
                degree=degrees.common(call),
            ),
        )
    return out


@rule(*operations.CHOICE)
def choice(call: Call) -> Any:
    """Between activations it passes; between functions of one tensor with f(0) != 0 it is a coefficient like them."""
    traces = [trace_known(tensor) for tensor in call.activations]
    culprit = next((trace.culprit for trace in traces if trace.at_zero != 0.0), "")
    if not culprit:
        return pass_through(call)
    origins = {
        id(t if trace.origin is None else trace.origin) for t, trace in zip(call.activations, traces, strict=True)
    }
    if len(origins) == 1:
        return constant(call, call.run(), culprit)
    return call.mode.constant(call, call.args, call.kwargs) if settle(call) else pass_through(call)


@rule(*SCATTER)
def scatter(call: Call) -> Any:
    """Sums and selections pass; products are no selection."""
    if {"prod", "multiply"} & {a for a in (*call.args, *call.kwargs.values()) if isinstance(a, str)}:
        raise call.refuse("it multiplies activations")
    return pass_through(call)


@rule(*operations.CAST)
def cast(call: Call) -> Any:
    """A copy or change of dtype or device is the same tensor for every purpose."""
    out = call.run()
    if not out.requires_grad and call.args[0].requires_grad:
        return note_cut(call, out)
    (source, *_) = call.activations
    if isinstance(out, Tensor) and out.requires_grad and out is not source:
        mark(out, trace_known(source).but(origin=chains.origin(source), unweighted=None))
    return out


@rule(*operations.DROPOUT)
def dropout(call: Call) -> Any:
    """Explanations are of the model as it predicts: dropout is left out."""
    return call.args[0] if call.args else call.kwargs["input"]


@rule(*operations.NUMBER)
def number(call: Call) -> Any:
    """item, tolist, numpy: an activation becomes a number that cannot be followed, also once it is detached. What the
    user does with outputs is another matter.
    """
    if _by_the_user(call):
        return call.run()
    raise call.refuse("it makes a plain number of an activation, so that its relevance would be lost")


@rule(*operations.HOOK)
def hook(call: Call) -> Any:
    """A hook on an activation would change what comes back to it."""
    if _by_the_user(call):
        return call.run()
    raise call.refuse("hooks on activations change relevance on its way back")


def _by_the_user(call: Call) -> bool:
    return (call.mode.root is not None and not inside_a_module()) or torch._C._current_graph_task_id() != -1


@rule(*operations.EMBEDDING)
def computed_table(call: Call) -> Any:
    """A look-up in a table that was computed from activations."""
    raise call.refuse("it looks up a table that depends on activations")

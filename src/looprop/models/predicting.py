"""What a model predicts for one input: by a plain pass, or by the pass under a plan that relevance is asked of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from looprop.errors import LoopropError, ModelError
from looprop.intercept.program import PathMode
from looprop.models.agreement import rounding
from looprop.models.checking import RAISED, named_failure
from looprop.models.encoded import Encoded
from looprop.models.ledger import BATCHES, PADDING
from looprop.models.prediction import Prediction, Traced
from looprop.models.trying import settled
from looprop.models.version import states, version_of
from looprop.propagation.modules import evaluating, has_compiled
from looprop.propagation.plan import Plan

if TYPE_CHECKING:
    from looprop.models.adapter import Adapter

PlanFor = Callable[["Adapter", Encoded], Plan | None]
"""The plan under which a method runs a model on an input, if it is one pass under a plan."""

# Of so many predictions of one path under one plan, one is compared with that of a plain pass.
PLAIN_EVERY = 16
TOKENS = 4096  # a batch holds at most this many tokens, so that the activations kept for the backward pass stay small


@torch.no_grad()
def predict(
    adapter: Adapter, encoded: Encoded, positions: int, plan_for: PlanFor | None, *, one_is_true: bool
) -> Prediction:
    """The model's own prediction, which must be numbers.

    plan_for: of the method that will be asked. Under its plan the first pass of each path, and then one of every
    `PLAIN_EVERY`, is compared with a plain pass, which is then the prediction.
    """
    version, ledger = version_of(adapter), adapter.ledger
    if version != ledger.version:
        ledger.renew(version)
    before = None if ledger.watched else states(adapter.model)
    compiled = has_compiled(adapter.model)  # it would be compiled again for a mode that looks on: its path is unknown
    traced, kind = None, ("", 0)
    if plan_for is not None and before is None and not compiled:
        traced, path, plan = _under(adapter, [encoded], positions, plan_for)
        kind = (f"under {plan}", path)
        since = ledger.unchecked.get(kind, PLAIN_EVERY) + 1
        ledger.unchecked[kind] = 0 if since >= PLAIN_EVERY else since
        if traced is not None and since < PLAIN_EVERY:
            return Prediction(traced.logits[0].detach(), path, version, one_is_true, [traced])
    mode = PathMode(encoded.inputs)
    try:
        with nullcontext() if compiled else mode, evaluating(adapter.model):
            answered = adapter.forward(encoded.inputs, positions=positions)
    except LoopropError:
        raise
    except RAISED as error:
        raise named_failure(adapter.name, error) from error
    logits = answered[0]
    if not torch.isfinite(logits).all():
        raise ModelError(f"{adapter.name} answers with NaN or infinite logits on this input: nothing can be explained")
    ledger.lengths.add(("", mode.path, len(encoded.names)))
    after = version if before is None else settled(adapter, before)
    if after.weights != version.weights:  # its first pass in eval mode rescales weights (RWKV)
        return predict(adapter, encoded, positions, plan_for, one_is_true=one_is_true)
    if traced is not None:
        apart = (traced.logits[0] - logits).abs().max()
        if kind[1] != mode.path or not apart <= rounding(float(logits.abs().max()), logits.dtype):
            ledger.unchecked.pop(kind, None)  # the next is compared, too
    return Prediction(logits, mode.path, after, one_is_true, [] if traced is None else [traced])


def fits(adapter: Adapter, one: Encoded, other: Encoded) -> bool:
    """May two inputs, the second of which is no shorter, run in one batch?"""
    if one is other or one.shapes == other.shapes:
        return one is other or adapter.takes_batches
    return adapter.takes_batches and adapter.may_pad(other)


def in_batches(adapter: Adapter, items: Sequence[Encoded], tokens: int = TOKENS) -> list[list[int]]:
    """Indices of inputs that run together: of similar length, within so many tokens."""
    found: list[list[int]] = []
    for i in sorted(range(len(items)), key=lambda i: (len(items[i]), i)):
        batch = found[-1] if found else []
        if not batch or not fits(adapter, items[batch[-1]], items[i]) or len(items[i]) * (len(batch) + 1) > tokens:
            found.append([])
        found[-1].append(i)
    return found


@torch.no_grad()
def predict_together(adapter: Adapter, items: Sequence[Encoded], plan_for: PlanFor) -> list[Prediction]:
    """The predictions of a batch from one pass under a plan; none where each input has to be predicted by itself.

    At first, and then for one of every `PLAIN_EVERY` inputs, the shortest and one in the middle are compared with plain
    passes of their own; a batch in which one is answered otherwise is never run again.
    """
    ledger, version = adapter.ledger, version_of(adapter)
    if len(items) < 2 or version != ledger.version or not ledger.watched or has_compiled(adapter.model):
        return []
    traced, path, plan = _under(adapter, items, 1, plan_for)
    if traced is None or len(traced.logits) != len(items):
        return []
    one_is_true, kind = adapter.one_is_true, (f"together under {plan}", path)
    since = ledger.unchecked.get(kind, PLAIN_EVERY) + len(items)
    for i in {0, len(items) // 2} if since >= PLAIN_EVERY else ():
        alone = adapter.predict(items[i]).logits
        if not (traced.logits[i] - alone).abs().max() <= rounding(float(alone.abs().max()), alone.dtype):
            name = BATCHES if len({len(one) for one in items}) == 1 else PADDING
            ledger.drop(name, "an input is answered otherwise in a batch than alone")
            return []
    ledger.unchecked[kind] = 0 if since >= PLAIN_EVERY else since
    kept, rows = [traced], enumerate(traced.logits.detach())
    return [Prediction(logits, path, version, one_is_true, kept, row) for row, logits in rows]


def _under(
    adapter: Adapter, items: Sequence[Encoded], positions: int, plan_for: PlanFor
) -> tuple[Traced | None, int, Plan | None]:
    """A pass under a plan, and its path; no pass where there is no plan, or it fails: the method will say why."""
    mode, plan = PathMode(items[0].inputs), None
    try:
        if (plan := plan_for(adapter, items[0])) is None:
            return None, 0, None
        inputs, own = adapter.collate(items)
        with adapter.traced(inputs, plan, positions=positions, within=mode) as traced:
            pass
    except (LoopropError, *RAISED):
        return None, 0, plan
    return (replace(traced, own=own) if torch.isfinite(traced.logits).all() else None), mode.path, plan

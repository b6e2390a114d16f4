"""What a model predicts for one input: by a plain pass, or by the pass under a plan that relevance is asked of."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import torch

from looprop.errors import LoopropError, ModelError
from looprop.intercept.program import PathMode
from looprop.models.agreement import rounding
from looprop.models.checking import RAISED, named_failure
from looprop.models.encoded import Encoded
from looprop.models.prediction import Prediction, Traced
from looprop.models.trying import settled
from looprop.models.version import states, version_of
from looprop.propagation.modules import evaluating, has_compiled
from looprop.propagation.plan import Plan

if TYPE_CHECKING:
    from looprop.models.adapter import Adapter

# Of so many predictions of one path under one plan, one is compared with that of a plain pass.
PLAIN_EVERY = 16


@torch.no_grad()
def predict(adapter: Adapter, encoded: Encoded, positions: int, plan: Plan | None, *, one_is_true: bool) -> Prediction:
    """The model's own prediction, which must be numbers.

    Under a plan the first pass of each path, and then one of every `PLAIN_EVERY`, is compared with a plain pass, which
    is then the prediction.
    """
    version, ledger = version_of(adapter), adapter.ledger
    if version != ledger.version:
        ledger.renew(version)
    before = None if ledger.watched else states(adapter.model)
    compiled = has_compiled(adapter.model)  # it would be compiled again for a mode that looks on: its path is unknown
    traced, kind = None, ("", 0)
    if plan is not None and before is None and not compiled:
        traced, path = _under(adapter, encoded, positions, plan)
        kind = (f"under {plan}", path)
        since = ledger.unchecked.get(kind, PLAIN_EVERY) + 1
        ledger.unchecked[kind] = 0 if since >= PLAIN_EVERY else since
        if traced is not None and since < PLAIN_EVERY:
            return Prediction(traced.logits[0].detach(), path, version, one_is_true, traced)
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
        return predict(adapter, encoded, positions, plan, one_is_true=one_is_true)
    if traced is not None:
        apart = (traced.logits[0] - logits).abs().max()
        if kind[1] != mode.path or not apart <= rounding(float(logits.abs().max()), logits.dtype):
            ledger.unchecked.pop(kind, None)  # the next is compared, too
    return Prediction(logits, mode.path, after, one_is_true, traced)


def _under(adapter: Adapter, encoded: Encoded, positions: int, plan: Plan) -> tuple[Traced | None, int]:
    """A pass under a plan and its path; None where it fails, of which the method that asks for it will say why."""
    mode = PathMode(encoded.inputs)
    try:
        with adapter.traced(adapter.collate([encoded])[0], plan, positions=positions, within=mode) as traced:
            pass
    except (LoopropError, *RAISED):
        return None, 0
    return (traced if torch.isfinite(traced.logits).all() else None), mode.path

"""What is found out about a model by running it: what it writes itself, how much its logits move, whether padding
reaches them, and where they are read from.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from looprop.errors import LoopropError, ModelError
from looprop.intercept.attention import heads_of_one
from looprop.models.agreement import rounding
from looprop.models.answer_rows import FIRST_ROW, AnswerRows, answer_rows_of
from looprop.models.checking import RAISED
from looprop.models.encoded import Encoded
from looprop.models.version import Place, Version, states, version_of
from looprop.propagation.tape import unseen

if TYPE_CHECKING:
    from looprop.models.adapter import Adapter
    from looprop.models.prediction import Resolved

TRIES = 3


def settled(adapter: Adapter, before: Mapping[Place, Hashable]) -> Version:
    """The version of a model without what its first forward pass has written: caches and counters of its own.

    before: the states of its fields before that pass.
    """
    after, ledger = states(adapter.model), adapter.ledger
    ledger.written |= frozenset(place for place in {*before, *after} if before.get(place) != after.get(place))
    version = version_of(adapter)
    ledger.renew(version)
    ledger.watched = True
    return version


def in_one_version(adapter: Adapter, find: Callable[[], Resolved]) -> Resolved:
    """What is found in several passes of a model; found again where the model changed between them."""
    for _ in range(TRIES):
        before = version_of(adapter)
        found = find()
        if found.prediction.version == before:
            return found
    raise ModelError(f"{adapter.name} changes while it answers: wait until nothing else writes to it")


@torch.no_grad()
def reach(adapter: Adapter, encoded: Encoded, logits: Tensor) -> float:
    """How much the logits (K, C) move when either half of an input is replaced; 0 if the model takes no such input."""
    even = torch.arange(len(encoded), device=adapter.device) % 2 == 0
    keep = torch.stack([even, ~even])
    keep[:, sorted(encoded.fixed)] = True
    try:
        with adapter.evaluating():
            moved = [adapter.logits(adapter.halved(encoded, row[None]), positions=len(logits))[0] for row in keep]
    except RAISED:
        return 0.0
    if any(other.shape != logits.shape for other in moved):  # a head with other classes has come in the meantime
        return 0.0
    return max(float((other - logits).abs().max()) for other in moved)


@torch.no_grad()
def answers_alike_with_padding(adapter: Adapter, encoded: Encoded) -> bool:
    """Is a shorter input answered beside this one, filled up to its length, as it is alone?"""
    shorter = encoded.only([i for i in range(len(encoded)) if i != adapter.spare_position(encoded)])
    with adapter.evaluating():
        try:
            alone = adapter.logits(adapter.collate([shorter])[0])
            beside = adapter.logits(adapter.collate([shorter, encoded])[0])[:1]
        except Exception:  # a model that checks what it gets
            return False
    allowed = rounding(float(alone.abs().max()), alone.dtype)
    return beside.shape == alone.shape and bool((beside - alone).abs().max() <= allowed)


def find_answer_rows(adapter: Adapter, encoded: Encoded) -> AnswerRows:
    """Which rows the answer to an input is read from; the first where the engine cannot tell."""
    if len(encoded) < 2:
        return FIRST_ROW
    try:
        return _rows_with_a_slope(adapter, encoded)
    except LoopropError:  # a model that the engine cannot follow: what asks has to prove it
        return FIRST_ROW


def _rows_with_a_slope(adapter: Adapter, encoded: Encoded) -> AnswerRows:
    with adapter.traced(encoded.inputs, record=True) as traced:
        adapter.ledger.once("attention", lambda: traced.attention)
        site = traced.tape.sites[-1] if traced.tape.sites else None
        if site is None or site.output is None:
            return FIRST_ROW
        with unseen():  # no two classes weigh alike, since probabilities add up to 1
            mixed = traced.logits * torch.linspace(1.0, 2.0, traced.logits.shape[-1], device=adapter.device)
        (gradient,) = traced.tape.gradients(mixed.sum(), [site.output])
    asked = heads_of_one(gradient, site.weights if site.weights is not None else gradient)
    if asked.shape[-2] != adapter.leading_positions(encoded) + len(encoded):  # a class token asks alone
        return FIRST_ROW
    return answer_rows_of(asked)

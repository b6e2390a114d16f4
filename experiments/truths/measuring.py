"""What every method says of one text, and how far that agrees with each reference."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looprop.errors import LoopropError
from looprop.evaluation.example import Task
from looprop.games.values import last_marginals
from looprop.measure import LONGEST_ERROR, ask
from looprop.methods.base import Method
from looprop.methods.parts.players import Players, players_of
from looprop.metrics import matters, pearson
from looprop.models.adapter import Adapter
from looprop.models.subject import Subject, bind
from looprop.models.target import TargetLike
from looprop.running.parts import Row

from .known import References, taken_over

METRICS = ("loo-r-no-special", "shapley-r-no-special")
REFERENCES = ("loo", "shapley")


@dataclass(frozen=True, eq=False)
class TruthTask(Task):
    """within: the characters of the text in which features are sought; all else stays. known: its references."""

    within: tuple[int, int] | None = None
    known: Mapping[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class Protocol:
    """What is measured, the same for all texts. methods: by label. shapley: how the second reference is computed where
    it is not known; its label is that of `methods`.
    """

    methods: Mapping[str, Method]
    shapley: Method
    features: str
    target: TargetLike


def measure_truths(adapter: Adapter, task: TruthTask, protocol: Protocol) -> list[Row]:
    """One row per method; an example that cannot be measured has rows that say why."""
    try:
        return _measured(adapter, task, protocol)
    except LoopropError as error:
        return [_row(task, label, error=str(error)[:LONGEST_ERROR]) for label in protocol.methods]


def _measured(adapter: Adapter, task: TruthTask, protocol: Protocol) -> list[Row]:
    subject = bind(
        adapter,
        task.item,
        target=protocol.target,
        features=protocol.features,
        within=task.within,
        truncation=True,
    )
    players = players_of(subject)
    truth = _references(players, protocol) if task.known is None else taken_over(task.known, players)
    common = {
        "features": len(players),
        "target": str(subject.target.key),
        "output": subject.output,
        "nothing": truth.nothing,
        "shapley_error": truth.error,
        "shapley_cost": truth.cost,
        **{
            f"{name}_matters": matters(getattr(truth, name), whole=subject.output, nothing=truth.nothing)
            for name in REFERENCES
        },
        "loo": truth.loo.tolist(),
        "shapley": truth.shapley.tolist(),
    }
    rows = []
    for label, method in protocol.methods.items():
        if label == "loo":
            own = _row(task, label, truth.loo, truth, cost=float(len(truth.loo)))
        elif method is protocol.shapley:
            own = _row(task, label, truth.shapley, truth, cost=truth.cost)
        else:
            own = _asked(task, label, method, subject, players, truth)
        rows.append({**own, **common})
    return rows


def _references(players: Players, protocol: Protocol) -> References:
    subject = players.value.subject
    (found,) = protocol.shapley.attribute([subject])
    count = len(players)
    nothing = float(players(np.zeros((1, count), dtype=bool))[0])
    error = float(found.details["largest_error"])
    return References(last_marginals(players, count), found.scores[players.players], error, nothing, found.cost)


def _asked(task: TruthTask, label: str, method: Method, subject: Subject, players: Players, truth: References) -> Row:
    (found,) = ask(method, [subject.alone()], catch=(LoopropError,), record=True)
    if found.scores is None:
        return _row(task, label, error=str(found.raised)[:LONGEST_ERROR])
    scores, note = found.scores[players.players], "; ".join(found.warnings)
    return _row(task, label, scores, truth, cost=float(found.cost), seconds=found.seconds, note=note)


def _row(
    task: TruthTask,
    label: str,
    scores: NDArray[np.float64] | None = None,
    truth: References | None = None,
    *,
    cost: float = math.nan,
    seconds: float = math.nan,
    note: str = "",
    error: str = "",
) -> Row:
    r = {metric: math.nan for metric in METRICS}
    if scores is not None and truth is not None:
        r = {metric: pearson(scores, getattr(truth, name)) for metric, name in zip(METRICS, REFERENCES, strict=True)}
    return {
        "example": task.id,
        "method": label,
        **r,
        "cost": cost,
        "seconds": seconds,
        "flipped": None,
        "note": note,
        "error": error,
        "scores": [] if scores is None else scores.tolist(),
    }

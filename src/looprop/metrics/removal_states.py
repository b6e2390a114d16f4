"""In which order features go, and which states a list of metrics asks for, so that the set function is asked once."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from looprop.errors import InputError
from looprop.metrics.base import Case, CaseField, Metric, Vector, finite_vector, get_metric


def removal_order(scores: ArrayLike, *, most_relevant_first: bool) -> NDArray[np.intp]:
    """The positions of the features in the order of their removal; ties by position, the lower first, both ways.

    >>> removal_order([0.5, 2.0, 0.5], most_relevant_first=True).tolist()
    [1, 0, 2]
    >>> removal_order([0.5, 2.0, 0.5], most_relevant_first=False).tolist()
    [0, 2, 1]
    """
    return _order(finite_vector("scores", scores), most_relevant_first=most_relevant_first)


def _order(scores: Vector, *, most_relevant_first: bool) -> NDArray[np.intp]:
    return np.argsort(-scores if most_relevant_first else scores, kind="stable")


def keep_matrix(order: ArrayLike) -> NDArray[np.bool_]:
    """The kept features (F-1, F) after each step: row k-1 has the first k features of the order removed.

    >>> keep_matrix([1, 0, 2]).astype(int).tolist()
    [[1, 0, 1], [0, 0, 1]]
    """
    order = np.asarray(order)
    count = len(order)
    if order.ndim != 1 or count == 0 or not np.array_equal(np.sort(order), np.arange(count)):
        raise InputError(f"order must hold each position from 0 to F-1 once, got {order.tolist()}")
    step_of_removal = np.empty(count, dtype=np.intp)  # (F,)
    step_of_removal[order] = np.arange(1, count + 1)
    return step_of_removal[None, :] > np.arange(1, count)[:, None]  # (F-1, F)


def _players_go(scores: Vector, plays: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The kept features (P, G) after each step, the most relevant of those that play first, till none is left."""
    (players,) = np.nonzero(plays)
    order = players[_order(scores[players], most_relevant_first=True)]
    keep = np.ones((len(players), len(scores)), dtype=bool)
    for step, player in enumerate(order):
        keep[step:, player] = False
    return keep


@dataclass(frozen=True, eq=False)
class States:
    """The states of one explanation, and where each part of them stands.

    keep: (N, G) the kept features of every state; repeats are left to the set function, which answers each once.
    rows: for "output", "morf_curve", "lerf_curve", "player_curve", as far as they are needed, their rows in `keep`.
    """

    keep: NDArray[np.bool_]
    rows: dict[CaseField, slice]

    def fill(self, case: Case, logits: ArrayLike) -> Case:
        """The case with its output and curves taken from the logits (N,) of these states."""
        logits = finite_vector("logits", logits)
        if len(logits) != len(self.keep):
            raise InputError(f"one logit per state is needed: {len(self.keep)} states, got {len(logits)} logits")
        found: dict[str, Any] = {name: logits[rows] for name, rows in self.rows.items()}
        if "output" in found:
            found["output"] = float(found["output"][0])
        return replace(case, **found)


def required_states(metrics: Iterable[str | Metric], curve_scores: ArrayLike, plays: ArrayLike | None = None) -> States:
    """The states that these metrics need for these scores (G,), in the order: intact input, MoRF steps, LeRF steps,
    steps of the features that play (`plays`; all by default). What is the same for all methods is not among them.

    >>> states = required_states(["morf", "aopc", "loo-r"], [0.5, 2.0, 1.0])
    >>> states.keep.astype(int).tolist()
    [[1, 1, 1], [1, 0, 1], [1, 0, 0]]
    >>> states.rows
    {'output': slice(0, 1, None), 'morf_curve': slice(1, 3, None)}
    """
    scores = finite_vector("curve_scores", curve_scores)
    if not len(scores):
        raise InputError("curve_scores must hold at least one feature, got none")
    needs = frozenset[CaseField]().union(*(get_metric(metric).needs for metric in metrics))
    parts: dict[CaseField, NDArray[np.bool_]] = {}
    if "output" in needs:
        parts["output"] = np.ones((1, len(scores)), dtype=bool)
    if "morf_curve" in needs:
        parts["morf_curve"] = keep_matrix(_order(scores, most_relevant_first=True))
    if "lerf_curve" in needs:
        parts["lerf_curve"] = keep_matrix(_order(scores, most_relevant_first=False))
    if "player_curve" in needs:
        playing = np.ones(len(scores), dtype=bool) if plays is None else np.asarray(plays, dtype=bool)
        parts["player_curve"] = _players_go(scores, playing)
    ends = np.cumsum([len(part) for part in parts.values()]).tolist()
    rows = {name: slice(end - len(part), end) for (name, part), end in zip(parts.items(), ends, strict=True)}
    return States(np.concatenate([np.empty((0, len(scores)), dtype=bool), *parts.values()]), rows)

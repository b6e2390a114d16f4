"""Which states of kept features a list of metrics asks for, so that the set function is asked once."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from looprop.errors import InputError
from looprop.metrics.base import Case, Metric, Need, get_metric
from looprop.metrics.correlation import finite_vector
from looprop.metrics.curves import keep_matrix, removal_order


@dataclass(frozen=True, eq=False)
class States:
    """The states of one explanation, and where each part of them stands.

    keep: (N, G) the kept features of every state; repeats are left to the set function, which answers each once.
    rows: for "output", "morf_curve", "lerf_curve", as far as they are needed, their rows in `keep`.
    """

    keep: NDArray[np.bool_]
    rows: dict[Need, slice]

    def fill(self, case: Case, logits: ArrayLike) -> Case:
        """The case with its output and curves taken from the logits (N,) of these states."""
        logits = finite_vector("logits", logits)
        if len(logits) != len(self.keep):
            raise InputError(f"one logit per state is needed: {len(self.keep)} states, got {len(logits)} logits")
        filled: Case = case
        if "output" in self.rows:
            filled = replace(filled, output=float(logits[self.rows["output"]][0]))
        if "morf_curve" in self.rows:
            filled = replace(filled, morf_curve=logits[self.rows["morf_curve"]])
        if "lerf_curve" in self.rows:
            filled = replace(filled, lerf_curve=logits[self.rows["lerf_curve"]])
        return filled


def required_states(metrics: Iterable[str | Metric], curve_scores: ArrayLike) -> States:
    """The states that these metrics need for these scores (G,), in the order: intact input, MoRF steps, LeRF steps.

    "loo" is not among them: leave-one-out is the same for all methods, and its features may be finer than those of the
    curves.

    >>> states = required_states(["morf", "aopc", "loo-r"], [0.5, 2.0, 1.0])
    >>> states.keep.astype(int).tolist()
    [[1, 1, 1], [1, 0, 1], [1, 0, 0]]
    >>> states.rows
    {'output': slice(0, 1, None), 'morf_curve': slice(1, 3, None)}
    """
    scores = finite_vector("curve_scores", curve_scores)
    if not len(scores):
        raise InputError("curve_scores must hold at least one feature, got none")
    needs = frozenset[Need]().union(*(get_metric(metric).needs for metric in metrics))
    parts: dict[Need, NDArray[np.bool_]] = {}
    if "output" in needs:
        parts["output"] = np.ones((1, len(scores)), dtype=bool)
    if "morf_curve" in needs:
        parts["morf_curve"] = keep_matrix(removal_order(scores, most_relevant_first=True))
    if "lerf_curve" in needs:
        parts["lerf_curve"] = keep_matrix(removal_order(scores, most_relevant_first=False))
    rows: dict[Need, slice] = {}
    start = 0
    for name, part in parts.items():
        rows[name] = slice(start, start + len(part))
        start += len(part)
    keep = np.concatenate([np.empty((0, len(scores)), dtype=bool), *parts.values()])
    return States(keep=keep, rows=rows)

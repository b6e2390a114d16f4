"""Metrics and their registry: a metric is a name, a direction, a version and a pure function of one `Case`.

To add a metric, write one file beside this one that calls `register`: the files of this folder are found by themselves.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from looprop.errors import InputError, UnknownNameError

Vector = NDArray[np.float64]
CaseField = Literal[
    "loo", "shapley", "output", "morf_curve", "lerf_curve", "player_curve", "aopc_limits", "removed_drops"
]


def finite_vector(name: str, values: ArrayLike) -> Vector:
    """`values` as a 1-D float array; an error that names the first offender if it is not finite."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise InputError(f"{name} must be one-dimensional, got shape {vector.shape}")
    bad = np.flatnonzero(~np.isfinite(vector))
    if len(bad):
        some = f"{len(bad)} of {len(vector)}"
        raise InputError(f"{name} must be finite, got {vector[bad[0]]} at position {bad[0]} ({some} are not finite)")
    return vector


@dataclass(frozen=True, eq=False)
class Case:
    """One example under one method: what the metrics are computed from. What no metric asks for may stay None.

    scores: (F,) one score per feature. loo, shapley: (F,) their leave-one-out and Shapley values, the two references.
    special: (F,) True for features that the tokenizer added; none by default.
    curve_scores: (G,) the scores at the granularity of the curves (chunks, for instance); the scores by default.
    morf_curve, lerf_curve: (G-1,) the target logit after each step, most and least relevant removed first.
    output: the target logit f(x) of the intact input. plays: (G,) False for those features of the curves that always
    stay; all play by default.
    player_curve: (P,) the target logit after each step, the most relevant of the P features that play removed first,
        until none of them is left.
    aopc_limits: the smallest and the largest area over that curve that any order has (`looprop.games.orders`).
    removed: (N, G) sets of features that play. removed_drops: (N,) by how much the target falls without each.
    """

    scores: Vector
    loo: Vector | None = None
    shapley: Vector | None = None
    special: NDArray[np.bool_] | None = None
    curve_scores: Vector | None = None
    morf_curve: Vector | None = None
    lerf_curve: Vector | None = None
    output: float | None = None
    plays: NDArray[np.bool_] | None = None
    player_curve: Vector | None = None
    aopc_limits: Vector | None = None
    removed: NDArray[np.bool_] | None = None
    removed_drops: Vector | None = None

    def __post_init__(self) -> None:
        scores = self._set("scores", finite_vector("scores", self.scores))
        if not len(scores):
            raise InputError("scores must hold at least one feature, got none")
        curve_scores = scores if self.curve_scores is None else finite_vector("curve_scores", self.curve_scores)
        self._set("curve_scores", curve_scores)
        self._set("special", np.asarray(np.zeros(len(scores)) if self.special is None else self.special, bool))
        plays = self._set("plays", np.asarray(np.ones(len(curve_scores)) if self.plays is None else self.plays, bool))
        sets = None if self.removed is None else self._set("removed", np.asarray(self.removed, dtype=bool))
        if sets is not None and (sets.ndim != 2 or sets.shape[1] != len(curve_scores)):
            raise InputError(f"removed must have shape (N, {len(curve_scores)}), got {sets.shape}")
        lengths = dict.fromkeys(("loo", "shapley", "special"), len(scores))
        lengths |= dict.fromkeys(("morf_curve", "lerf_curve"), len(curve_scores) - 1)
        lengths |= {"plays": len(curve_scores), "player_curve": int(plays.sum()), "aopc_limits": 2}
        lengths["removed_drops"] = 0 if sets is None else len(sets)
        for name, expected in lengths.items():
            value = getattr(self, name)
            if value is not None and name not in ("special", "plays"):
                value = self._set(name, finite_vector(name, value))
            if value is not None and value.shape != (expected,):
                raise InputError(f"{name} must have length {expected}, got shape {value.shape}")
        if self.output is not None and not math.isfinite(self.output):
            raise InputError(f"output must be finite, got {self.output}")

    def _set(self, name: str, value: NDArray[Any]) -> NDArray[Any]:
        object.__setattr__(self, name, value)
        return value


@dataclass(frozen=True)
class Metric:
    """A number per example that says how faithful the scores are.

    needs: the fields of `Case` that must be filled in. function: the value of one case; NaN where it is undefined.
    version: goes up whenever the definition changes, so that stored results are never mixed. flipped: whether a
    normalisation turned the sign around (protocol="paper" only). title: what tables call it, if not by its name; label:
    what they call it.
    """

    name: str
    description: str
    higher_is_better: bool
    needs: frozenset[CaseField]
    function: Callable[[Case], float]
    version: int = 1
    flipped: Callable[[Case], bool] = lambda case: False
    title: str = ""
    label: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.title or self.name)

    def __reduce__(self) -> tuple[Any, ...] | str:
        """A metric that is known by its name is sent to other processes by it: its functions may be local ones."""
        return (get_metric, (self.name,)) if _METRICS.get(self.name) is self else super().__reduce__()

    def __call__(self, case: Case) -> float:
        missing = sorted(need for need in self.needs if getattr(case, need) is None)
        if missing:
            raise InputError(f"metric {self.name!r} needs {', '.join(missing)}, which this case does not have")
        return self.function(case)


_METRICS: dict[str, Metric] = {}


def register(metric: Metric) -> Metric:
    """Makes a metric known by its name; a name can be taken only once."""
    if metric.name in _METRICS:
        raise InputError(f"a metric named {metric.name!r} exists already")
    _METRICS[metric.name] = metric
    return metric


def get_metric(metric: str | Metric) -> Metric:
    """The metric of that name; a `Metric` is returned as it is.

    >>> get_metric("morf").higher_is_better
    False
    """
    if isinstance(metric, Metric):
        return metric
    if metric not in _METRICS:
        raise UnknownNameError("metric", metric, _METRICS)
    return _METRICS[metric]


def metric_names() -> tuple[str, ...]:
    """The names of all known metrics, in the order of their registration."""
    return tuple(_METRICS)

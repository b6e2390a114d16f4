"""One example under every method: scores, exact leave-one-out, curves, and one row per method.

Each example is computed for itself, never in a batch with others, so that its numbers do not depend on what else is in
a run.
"""

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from looprop.errors import InputError, LoopropError
from looprop.evaluation.common import Common, Reference, measure_common
from looprop.evaluation.cuts import cut_columns
from looprop.evaluation.known_loo import KnownLoo, learn_known
from looprop.evaluation.known_shares import KnownShapley, check_known
from looprop.evaluation.setup import Setup
from looprop.methods.base import Method
from looprop.metrics import Case, Metric, get_metric, required_states
from looprop.models.adapter import Adapter, Removal
from looprop.models.encoded import partition
from looprop.models.subject import Subject, bind
from looprop.removal.value import SetFunction
from looprop.running.parts import Row

Floats = NDArray[np.float64]


STOPS = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""What ends a run however far it is; everything else that is raised on the way belongs to one example."""


LONGEST_ERROR = 1000  # characters: some errors quote the whole text


class WrongLoo(InputError):
    """A known reference that is not that of the example."""


@dataclass(frozen=True, eq=False)
class Task:
    """One example to be measured: its name in the results, the input, and scores and leave-one-out that were computed
    elsewhere, and so for Shapley values.
    """

    id: str
    item: Any
    scores: Mapping[str, ArrayLike] | None = None
    loo: KnownLoo | None = None
    shapley: KnownShapley | None = None


@dataclass(frozen=True, eq=False)
class _Found:
    """What a method said, or why it said nothing."""

    scores: Floats | None = None
    cost: float = math.nan
    seconds: float = math.nan
    residual: float = math.nan
    note: str = ""
    error: str = ""
    largest_error: float = math.nan


def evaluate_example(adapter: Adapter, task: Task, setup: Setup) -> list[Row]:
    """One row per method: its metrics, cost, seconds, scores, and the error of a method that failed on this example.

    Whatever goes wrong on an example, in its text, the tokenizer, the model or a metric, is the error of its rows and
    not the end of the run. Leave-one-out that is given and not this example's is no failure of the example: it raises.
    """
    try:
        return _measured(adapter, task, setup)
    except (*STOPS, WrongLoo):
        raise
    except BaseException as error:  # what tokenizers written in Rust raise is no Exception
        return failed_rows(task, setup, _said(error))


def _measured(adapter: Adapter, task: Task, setup: Setup) -> list[Row]:
    subject = bind(adapter, task.item, target=setup.target, truncation=setup.truncation)
    reference = _reference(subject, task, setup)
    if reference.scores is None:
        return failed_rows(task, setup, reference.error)
    shares = _shapley(subject, task, setup)
    if shares is not None and shares.scores is None:
        return failed_rows(task, setup, shares.error)
    known: dict[Method, _Found] = {setup.reference: reference}
    known |= {} if shares is None else {setup.shapley_reference: shares}
    found = {label: known.get(method) or _attribute(subject.alone(), method) for label, method in setup.made.items()}
    found |= {name: _given(subject, name, task.scores) for name in setup.given}
    return _rows(subject, task, setup, (reference, shares), found)


def _reference(subject: Subject, task: Task, setup: Setup) -> _Found:
    """Exact leave-one-out: computed, or known and found to be right."""
    if task.loo is None:
        return _attribute(subject, setup.reference)
    try:
        learn_known(subject, task.loo, setup.removal)
    except LoopropError as error:
        raise WrongLoo(f"{task.id}: {error}") from error
    return _Found(task.loo.scores, task.loo.cost, task.loo.seconds)


def _shapley(subject: Subject, task: Task, setup: Setup) -> _Found | None:
    """Shapley values, where a metric is computed from them: computed, or known and found to be right."""
    if "shapley" not in setup.needs:
        return None
    if task.shapley is None:
        return _attribute(subject, setup.shapley_reference)
    try:
        check_known(subject, task.shapley, setup.removal)
    except LoopropError as error:
        raise WrongLoo(f"{task.id}: {error}") from error
    return _Found(task.shapley.scores, task.shapley.cost, task.shapley.seconds, largest_error=task.shapley.error)


def _attribute(subject: Subject, method: Method) -> _Found:
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            (attribution,) = method.attribute([subject])
        except STOPS:
            raise
        except BaseException as error:  # one method failing on one example must not end a run: the row says what it was
            return _Found(seconds=time.perf_counter() - start, error=_said(error))
    seconds = time.perf_counter() - start
    scores = np.asarray(attribution.scores, dtype=np.float64)
    if not np.isfinite(scores).all():
        return _Found(
            seconds=seconds, error=f"{int((~np.isfinite(scores)).sum())} of {len(scores)} scores are NaN or infinite"
        )
    residual = math.nan if attribution.residual is None else float(attribution.residual)
    note = "; ".join(str(w.message) for w in said)
    uncertain = float(attribution.details.get("largest_error", math.nan))
    return _Found(scores, float(attribution.cost), seconds, residual, note=note, largest_error=uncertain)


def _given(subject: Subject, name: str, scores: Mapping[str, ArrayLike] | None) -> _Found:
    try:
        return _Found(_checked(subject, name, (scores or {}).get(name, ())))
    except InputError as error:
        return _Found(error=str(error))


def _checked(subject: Subject, name: str, scores: ArrayLike) -> Floats:
    """Scores that were computed elsewhere, if they can be those of this subject."""
    try:
        given = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: scores must be numbers, {error}") from None
    if given.shape != (len(subject.features),):
        raise InputError(f"{name}: expected {len(subject.features)} scores, one per token, got shape {given.shape}")
    if not np.isfinite(given).all():
        raise InputError(f"{name}: scores must be finite, got {given[~np.isfinite(given)][0]}")
    return given


def check_given(adapter: Adapter, tasks: Sequence[Task], setup: Setup) -> None:
    """Raises for scores from elsewhere that are not those of their example, before anything is measured. An example
    that cannot be explained at all says so in its rows.
    """
    for task in tasks if setup.given else ():
        try:
            subject = bind(adapter, task.item, target=setup.target, truncation=setup.truncation)
        except Exception:
            continue
        for name in setup.given:
            try:
                _checked(subject, name, (task.scores or {}).get(name, ()))
            except InputError as error:
                raise InputError(f"scores of example {task.id!r}: {error}") from None


def _rows(
    subject: Subject,
    task: Task,
    setup: Setup,
    references: tuple[_Found, _Found | None],
    found: Mapping[str, _Found],
) -> list[Row]:
    metrics = [get_metric(name) for name in setup.columns]
    grouped = replace(subject, features=partition(subject.encoded, setup.curve_features))
    loo, shapley = (None if of is None else _as_reference(of) for of in references)
    assert loo is not None
    shared = measure_common(subject, grouped, setup, loo, shapley)
    cases = _cases(subject, grouped, metrics, setup.removal, shared, found)
    common = {
        "features": len(subject.features),
        "curve_features": len(grouped.features),
        "target": str(subject.target.key),
        "label": subject.target.label,
        "output": subject.output,
        **shared.of_row(subject.output),
        **cut_columns(subject.encoded.cut),
    }
    rows = []
    for label, of in found.items():
        own: Row = {"residual": of.residual, "cost": of.cost, "seconds": of.seconds, "note": of.note}
        if of.scores is not None:
            case = cases[label]
            turned = [metric.flipped(case) for metric in metrics if metric.name == "loo-r-paper"]
            own |= {metric.name: metric(case) for metric in metrics}
            own |= {"flipped": turned[0] if turned else None, "scores": of.scores.tolist(), **_curves(setup, case)}
        rows.append({**_failed(task, setup, label, of.error), **common, **own})
    return rows


def _as_reference(found: _Found) -> Reference:
    assert found.scores is not None
    return Reference(found.scores, found.cost, found.largest_error)


def _cases(
    subject: Subject,
    grouped: Subject,
    metrics: Sequence[Metric],
    removal: Removal | None,
    shared: Common,
    found: Mapping[str, _Found],
) -> dict[str, Case]:
    """What the metrics are computed from, for every method that gave scores."""
    position = {group: i for i, group in enumerate(subject.features)}
    cases, states = {}, {}
    for label, of in found.items():
        if of.scores is None:
            continue
        curve_scores = np.array([sum(of.scores[position[(i,)]] for i in group) for group in grouped.features])
        cases[label] = Case(of.scores, curve_scores=curve_scores, **shared.of_case)
        states[label] = required_states(metrics, curve_scores, shared.plays)
    if states:
        # All methods at once: what two of them share is computed once, and batches are fuller.
        keep = np.concatenate([state.keep for state in states.values()])
        logits = SetFunction(grouped, removal=removal)(keep) if len(keep) else np.empty(0)
        ends = np.cumsum([len(state.keep) for state in states.values()])
        for (label, state), end in zip(states.items(), ends, strict=True):
            cases[label] = state.fill(cases[label], logits[end - len(state.keep) : end])
    return cases


def failed_rows(task: Task, setup: Setup, error: str) -> list[Row]:
    """The rows of an example on which nothing could be measured."""
    return [_failed(task, setup, label, error) for label in setup.labels]


def _failed(task: Task, setup: Setup, label: str, error: str) -> Row:
    """A row without numbers, in the order of columns that all rows have."""
    return {
        "example": task.id,
        "method": label,
        "features": 0,
        "curve_features": 0,
        "target": "",
        "label": "",
        "output": math.nan,
        **dict.fromkeys(setup.columns, math.nan),
        "flipped": None,
        "residual": math.nan,
        "cost": math.nan,
        "seconds": math.nan,
        "note": "",
        "error": error,
        "scores": [],
        "loo": [],
        **_curves(setup, None),
    }


def _curves(setup: Setup, case: Case | None) -> Row:
    """The removal curves of a case, where they are kept; none of an example that failed."""
    found: Row = {}
    for name in ("morf_curve", "lerf_curve"):
        if setup.keep_curves and name in setup.needs:
            curve = getattr(case, name, None)
            found[name] = [] if curve is None else curve.tolist()
    return found


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:LONGEST_ERROR]}"

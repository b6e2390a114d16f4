"""One example under every method: scores, exact leave-one-out, curves, and one row per method.

Each example is computed for itself, never in a batch with others, so that its numbers do not depend on what else is in
a run.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from looprop.errors import InputError, LoopropError
from looprop.evaluation.references import (
    KnownReference,
    WrongReference,
    check_shapley,
    learn_known,
    measure_common,
)
from looprop.evaluation.setup import Setup
from looprop.evaluation.summary import cut_columns
from looprop.explained import frame_of
from looprop.measure import STOPS, Outcome, ask, error_of
from looprop.methods.base import Method
from looprop.metrics import Case, required_states
from looprop.models.adapter import Adapter
from looprop.models.encoded import partition
from looprop.models.subject import Subject, bind
from looprop.removal.value import SetFunction
from looprop.result.explanation import Explanation
from looprop.running.parts import Row

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Task:
    """One example to be measured: its name in the results, the input, and scores and leave-one-out that were computed
    elsewhere, and so for Shapley values.
    """

    id: str
    item: Any
    scores: Mapping[str, ArrayLike] | None = None
    loo: KnownReference | None = None
    shapley: KnownReference | None = None


def evaluate_example(adapter: Adapter, task: Task, setup: Setup) -> list[Row]:
    """One row per method: its metrics, cost, seconds, scores, and the error of a method that failed on this example.

    Whatever goes wrong on an example, in its text, the tokenizer, the model or a metric, is the error of its rows and
    not the end of the run. Leave-one-out that is given and not this example's is no failure of the example: it raises.
    """
    return evaluate_framed(adapter, task, setup, framed=False)[0]


def evaluate_framed(
    adapter: Adapter, task: Task, setup: Setup, *, framed: bool = True
) -> tuple[list[Row], Explanation | None]:
    """The rows of `evaluate_example`, and the text, features and target they are about; None where that failed."""
    try:
        subject = bind(adapter, task.item, target=setup.target, truncation=setup.truncation)
        return _measured(subject, task, setup), frame_of(subject) if framed else None
    except (*STOPS, WrongReference):
        raise
    except BaseException as error:  # what tokenizers written in Rust raise is no Exception
        return failed_rows(task, setup, error_of(error)), None


def framed(adapter: Adapter, task: Task, setup: Setup) -> Explanation | None:
    """The text, features and target of an example that was measured before; None where it cannot be read."""
    try:
        return frame_of(bind(adapter, task.item, target=setup.target, truncation=setup.truncation))
    except LoopropError:
        return None


def _measured(subject: Subject, task: Task, setup: Setup) -> list[Row]:
    found: dict[Method, Outcome] = {}
    try:
        if task.loo is not None:
            learn_known(subject, task.loo, setup.removal)
        found[setup.reference] = _reference(subject, setup.reference, task.loo)
        if "shapley" in setup.needs:
            if task.shapley is not None:
                check_shapley(subject, task.shapley, setup.removal)
            found[setup.shapley_reference] = _reference(subject, setup.shapley_reference, task.shapley)
    except LoopropError as error:
        raise WrongReference(f"{task.id}: {error}") from error
    if failed := next((reference.error for reference in found.values() if reference.error), None):
        return failed_rows(task, setup, failed)
    references = tuple(found.values())
    asked = {label: found.get(method) or _asked(subject.alone(), method) for label, method in setup.made.items()}
    asked |= {name: _given(subject, name, task.scores) for name in setup.given}
    return _rows(subject, task, setup, references, asked)


def _reference(subject: Subject, method: Method, known: KnownReference | None) -> Outcome:
    """What a reference gives: computed, or known and found to be right."""
    if known is None:
        return _asked(subject, method)
    return Outcome(known.scores, known.cost, known.seconds, details={"largest_error": known.error})


def _asked(subject: Subject, method: Method) -> Outcome:
    """What a method gives on one example: whatever it raises there must not end a run."""
    (found,) = ask(method, [subject], catch=(BaseException,), record=True)
    if found.scores is None or np.isfinite(found.scores).all():
        return found
    wrong = int((~np.isfinite(found.scores)).sum())
    return Outcome(seconds=found.seconds, error=f"{wrong} of {len(found.scores)} scores are NaN or infinite")


def _given(subject: Subject, name: str, scores: Mapping[str, ArrayLike] | None) -> Outcome:
    try:
        return Outcome(_checked(subject, name, (scores or {}).get(name, ())))
    except InputError as error:
        return Outcome(error=str(error))


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
    for task in tasks:
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
    subject: Subject, task: Task, setup: Setup, references: tuple[Outcome, ...], found: Mapping[str, Outcome]
) -> list[Row]:
    metrics = setup.measures
    groups = partition(subject.encoded, setup.curve_features)
    grouped = subject if groups == subject.features else replace(subject, features=groups)
    shared, columns = measure_common(subject, grouped, setup, *references)
    cases = _cases(subject, grouped, setup, shared, found)
    common = {
        "features": len(subject.features),
        "curve_features": len(grouped.features),
        "target": str(subject.target.key),
        "label": subject.target.label,
        "output": subject.output,
        **columns,
        **cut_columns(subject.encoded.cut),
    }
    rows = []
    for label, of in found.items():
        residual, note = math.nan if of.residual is None else float(of.residual), "; ".join(of.warnings)
        own: Row = {"residual": residual, "cost": float(of.cost), "seconds": of.seconds, "note": note}
        if of.scores is not None:
            case = cases[label]
            turned = [metric.flipped(case) for metric in metrics if metric.name == "loo-r-paper"]
            own |= {metric.name: metric.function(case) for metric in metrics}  # the case has what they need
            own |= {"flipped": turned[0] if turned else None, "scores": of.scores.tolist(), **_curves(setup, case)}
        rows.append({**_failed(task, setup, label, of.error), **common, **own})
    return rows


def _cases(
    subject: Subject, grouped: Subject, setup: Setup, shared: Mapping[str, Any], found: Mapping[str, Outcome]
) -> dict[str, Case]:
    """What the metrics are computed from, for every method that gave scores."""
    position = {group: i for i, group in enumerate(subject.features)}
    cases, states = {}, {}
    for label, of in found.items():
        if of.scores is None:
            continue
        curve_scores = np.array([sum(of.scores[position[(i,)]] for i in group) for group in grouped.features])
        cases[label] = Case(of.scores, curve_scores=curve_scores, **shared)
        states[label] = required_states(setup.measures, curve_scores, shared["plays"])
    if states:
        # All methods at once: what two of them share is computed once, and batches are fuller.
        keep = np.concatenate([state.keep for state in states.values()])
        logits = SetFunction(grouped, removal=setup.removal)(keep) if len(keep) else np.empty(0)
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

"""What a method says of a subject, with the names of its features: an explanation."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from looprop.checking import checked
from looprop.errors import InputError
from looprop.measure import Outcome, ask
from looprop.methods.base import Method
from looprop.methods.default import by_default
from looprop.methods.loo import LeaveOneOut
from looprop.methods.names import DEFAULT
from looprop.models.adapter import Adapter
from looprop.models.answers import said_of
from looprop.models.subject import Subject, bind_together
from looprop.models.target import TargetLike
from looprop.progress import InterruptedWarning, Steps
from looprop.removal.value import SetFunction
from looprop.result.explanation import Check, Explanation, Explanations
from looprop.result.matrix import ExplanationMatrix


def explain_subjects(subjects: Sequence[Subject], method: Method | None, *, check: int | None = None) -> Explanations:
    """Run a method, put names to its scores, and check them by so many true values. None is the default method."""
    if method is not None:
        return _explained(subjects, method, check)
    found, refused = by_default(lambda own: _explained(subjects, own, check))
    if not refused:
        return found
    return Explanations(replace(e, details={**e.details, "instead_of": dict(refused)}) for e in found)


def _explained(subjects: Sequence[Subject], method: Method, check: int | None) -> Explanations:
    found = zip(subjects, ask(method, subjects), strict=True)
    # Without a wish a check is made where the method has computed leave-one-out of every feature.
    wanted = ((s, own, check is not None or bool(s.cache.values)) for s, own in found)
    return Explanations(
        explanation_of(s, own, method, checked(s, own, check) if wants else None) for s, own, wants in wanted
    )


def explain_together(
    adapter: Adapter, items: Sequence[Any], targets: Sequence[TargetLike], method: Method, **how: Any
) -> Explanations | None:
    """Explain several inputs by a method that is one pass under a plan, which predicts them, too; None for others."""
    if type(method).plan_for is Method.plan_for:
        return None
    found: dict[int, Explanation] = {}
    for batch in bind_together(adapter, items, targets, plan_for=method.plan_for, **how):
        found |= zip(batch, explain_subjects(list(batch.values()), method), strict=True)
    return Explanations(found[i] for i in range(len(items)))


def explain_list(
    bound: Sequence[Callable[[], Subject]], method: Method | None, *, check: int | None, steps: Steps | None
) -> Explanations:
    """Explain several inputs: in steps where someone watches them, else all at once. bound: what binds each."""
    if not steps:
        return explain_subjects([bind() for bind in bound], method, check=check)
    found = Explanations()

    def some(start: int, end: int) -> None:
        found.extend(explain_subjects([bind() for bind in bound[start:end]], method, check=check))

    if not steps.run(some, len(bound), method.name if method else DEFAULT):
        if not found:
            raise KeyboardInterrupt
        _warn(f"{len(found)} of {len(bound)} inputs are explained")
    return found


def explain_one(subject: Subject, method: Method | None, *, check: int | None, steps: Steps | None) -> Explanation:
    """Explain one input, by leave-one-out in steps where someone watches it."""
    if steps is None:
        return explain_subjects([subject], method, check=check)[0]
    reached, cost, seconds = _in_steps(subject, method, steps)
    (found,) = explain_subjects([reached], method, check=check)
    return replace(found, cost=found.cost + cost, seconds=found.seconds + seconds)


def _in_steps(subject: Subject, method: Method | None, steps: Steps | None) -> tuple[Subject, float, float]:
    """Leave out a few features at a time: the subject with the features that were reached, the passes and seconds that
    this took. Features that were not reached stay in place, as they did while the others were left out. Other methods
    than leave-one-out have no steps.
    """
    if not steps or not isinstance(method, LeaveOneOut):
        return subject, 0.0, 0.0
    value = SetFunction(subject, removal=method.removal, precision=method.precision)
    keep = ~np.eye(len(subject.features), dtype=bool)  # row i leaves feature i out
    computed, checks, start = value.count.computed, subject.cache.checks.seconds, time.perf_counter()
    steps.run(lambda first, end: value(keep[first:end]), len(keep), method.name)
    seconds = time.perf_counter() - start - (subject.cache.checks.seconds - checks)
    known, cost = value.is_known(keep), float(value.count.computed - computed)
    if known.all():
        return subject, cost, seconds
    if not known.any():
        raise KeyboardInterrupt
    said = f"{len(known) - known.sum()} of {len(known)} features have no score"
    _warn(said)
    parts: dict[str, Any] = {
        name: own and tuple(one for one, there in zip(own, known, strict=True) if there)
        for name, own in (("features", subject.features), ("names", subject.names), ("spans", subject.spans))
    }
    return replace(subject, **parts, about={**subject.about, "interrupted": said}), cost, seconds


def _warn(said: str) -> None:
    warnings.warn(f"interrupted: {said}", InterruptedWarning, stacklevel=4)


def explanation_of(subject: Subject, found: Outcome, method: Method, check: Check | None = None) -> Explanation:
    """Scores with the names of their features."""
    assert found.scores is not None
    of_method: dict[str, Any] = {"kind": method.kind} if hasattr(method, "kind") else {}
    if "removal" in found.options or method.removes_by:
        of_method["removal"] = found.removal
    return Explanation(
        **_of_input(subject),
        scores=found.scores,
        method=method.name,
        residual=found.residual,
        cost=found.cost + (check.cost if check is not None else 0.0),
        seconds=found.seconds,
        options=found.options,
        details={**found.details, **of_method, **_details_of_input(subject), **subject.about},
        check=check,
    )


def named_features(subject: Subject) -> tuple[list[tuple[int, int] | None], list[str]]:
    """Which characters each feature holds, None where it has none, and what it is called."""
    encoded = subject.encoded
    spans: list[tuple[int, int] | None] = list(subject.spans or ())
    for group in subject.features if subject.spans is None else ():
        own = [s for i in group if (s := encoded.offsets[i]) is not None]
        spans.append((min(s[0] for s in own), max(s[1] for s in own)) if own else None)
    if subject.names is not None:
        return spans, list(subject.names)
    names = []
    for group, span in zip(subject.features, spans, strict=True):
        whole = encoded.text[slice(*span)] if span else " ".join(encoded.names[i] for i in group)
        names.append(encoded.names[group[0]] if len(group) == 1 else whole)
    return spans, names


def frame_of(subject: Subject) -> Explanation:
    """An explanation without scores: text, features and target, which are the same for all methods."""
    blank: dict[str, Any] = {"method": "", "scores": np.zeros(len(subject.features)), "options": {}}
    return Explanation(**_of_input(subject), **blank, cost=0.0, seconds=0.0, details=_details_of_input(subject))


def _of_input(subject: Subject) -> dict[str, Any]:
    """The fields of an explanation that do not depend on the method."""
    encoded, groups = subject.encoded, subject.features
    spans, names = named_features(subject)
    return {
        "features": names,
        "output": subject.output,
        "target": subject.target.key,
        "label": subject.target.label,
        "text": encoded.text,
        "offsets": spans,
        "special": subject.special,
        "word_ids": [encoded.word_ids[g[0]] for g in groups],
        "model": subject.adapter.name,
        # The first token of a causal model is an attention sink: by itself it is shown, but not on the colour scale.
        "outside_scale": [subject.adapter.causal and group == (0,) and len(groups) > 1 for group in groups],
    }


def _details_of_input(subject: Subject) -> dict[str, Any]:
    """How likely the target is, how much of a text was cut, and what an image looks like."""
    about: dict[str, Any] = {}
    if subject.target.continuation:
        about["log_probability"] = True
    if subject.encoded.cut is not None:
        about["truncated"] = dict(zip(("kept", "of"), subject.encoded.cut, strict=True))
    if (probability := subject.probability) is not None:
        about["probability"] = probability
    if subject.adapter.draws and (drawn := subject.adapter.picture(subject.encoded)):
        about["picture"] = {**drawn, "cells": [list(group) for group in subject.features]}
    return about


def explain_each(subject: Subject, method: Method, steps: Steps | None) -> ExplanationMatrix:
    """Every token of a continuation by itself. All of them are asked of one input: what was computed for one, a forward
    pass or removals, serves the others.
    """
    if not method.reads_target:
        raise InputError(f"{method.name} does not depend on what is said: it has nothing to tell of each token")
    subject, cost, seconds = _in_steps(subject, method, steps)
    subjects = subject.each()
    alike, spent = method.for_each(subject)
    found = ask(alike, subjects)
    options = method.options  # of the method that was asked for, which may be asked in another form
    columns = [explanation_of(s, replace(own, options=options), method) for s, own in zip(subjects, found, strict=True)]
    tokens, spans, text = said_of(subject.adapter, subject.target.index, subject.target.label, subject.about)
    logprobs, matrix, first = tuple(s.output for s in subjects), np.stack([c.scores for c in columns], 1), columns[0]
    whole = replace(
        first,
        scores=matrix.sum(1),
        output=float(sum(logprobs)),
        target=text,
        label=text,
        residual=None if first.residual is None else sum(column.residual or 0.0 for column in columns),
        cost=cost + (spent + sum(own.cost for own in found)),
        seconds=seconds + sum(column.seconds for column in columns),
    )
    return ExplanationMatrix(whole, matrix, text, tuple(tokens), tuple(spans), logprobs)

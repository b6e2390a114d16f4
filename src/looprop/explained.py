"""What a method says of a subject, with the names of its features: an explanation."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from looprop.checking import checked, removal_of
from looprop.errors import InputError
from looprop.measure import Measured, ask
from looprop.methods.base import Method
from looprop.methods.default import by_default
from looprop.models.answer_text import said_of
from looprop.models.subject import Subject
from looprop.result.check import Check
from looprop.result.explanation import Explanation
from looprop.result.explanations import Explanations
from looprop.result.matrix import ExplanationMatrix, matrix_of


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
        explanation_of(s, own, method, checked(s, own, method, check) if wants else None) for s, own, wants in wanted
    )


def explanation_of(subject: Subject, found: Measured, method: Method, check: Check | None = None) -> Explanation:
    """Scores with the names of their features."""
    assert found.scores is not None
    of_method: dict[str, Any] = {"kind": method.kind} if hasattr(method, "kind") else {}
    if "removal" in found.options or method.removes_by:
        of_method["removal"] = removal_of(subject, method, found.options)
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


def explain_each(subject: Subject, method: Method) -> ExplanationMatrix:
    """Every token of a continuation by itself. All of them are asked of one input: what was computed for one, a forward
    pass or removals, serves the others.
    """
    if not method.reads_target:
        raise InputError(f"{method.name} does not depend on what is said: it has nothing to tell of each token")
    subjects = subject.each()
    alike, spent = method.for_each(subject)
    found = ask(alike, subjects)
    columns = [explanation_of(s, own, method) for s, own in zip(subjects, found, strict=True)]
    tokens, spans, text = said_of(subject.adapter, subject.target.index, subject.target.label, subject.about)
    logprobs = [s.output for s in subjects]
    return matrix_of(columns, text, tokens, spans, logprobs, cost=spent + sum(own.cost for own in found))

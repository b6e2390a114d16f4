"""Methods asked about one writing of a model after the other."""

import math
import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from looprop.auditing.comparing import Agreement, Scores, agreement
from looprop.errors import LoopropError
from looprop.methods.base import Attribution, Method
from looprop.methods.ig import IntegratedGradientsWarning
from looprop.metrics import pearson
from looprop.models.subject import Subject

Answer = list[Attribution] | str
"""One attribution per input, or why there is none."""


def ask(method: Method, subjects: Sequence[Subject], *, batch: bool = True) -> Answer:
    """What a method says of every input: in one batch, or one by one."""
    # The longest first: what has to be proven of a model once per length is then proven once.
    order = sorted(range(len(subjects)), key=lambda i: -len(subjects[i].encoded))
    groups = [order] if batch else [[i] for i in order]
    found: dict[int, Attribution] = {}
    with warnings.catch_warnings():
        # The residual of integrated gradients is one of the checks.
        warnings.simplefilter("ignore", IntegratedGradientsWarning)
        try:
            for group in groups:
                found |= dict(zip(group, method.attribute([subjects[i] for i in group]), strict=True))
        except (LoopropError, RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
            return " ".join(str(error).split()) or type(error).__name__
    return [found[i] for i in range(len(subjects))]


def ask_all(methods: Mapping[str, Method], subjects: Sequence[Subject], *, batch: bool = True) -> dict[str, Answer]:
    """What every method says; methods share nothing that one of them found out about a subject."""
    found = {}
    for name, method in methods.items():
        own = [Subject(s.adapter, s.encoded, s.target, s.features) for s in subjects]
        found[name] = ask(method, own, batch=batch)
    return found


def compare(before: Answer, after: Answer, tolerance: float) -> Agreement | str:
    """How far two answers are apart, or why that cannot be said."""
    for answer in (before, after):
        if isinstance(answer, str):
            return answer
    return agreement(_scores(before), _scores(after), tolerance)


def mean_r(before: Answer, after: Answer) -> float:
    """Mean over inputs of Pearson's r between two answers, NaN where there is none."""
    if isinstance(before, str) or isinstance(after, str):
        return math.nan
    values = [r for a, b in zip(_scores(before), _scores(after), strict=True) if not math.isnan(r := pearson(a, b))]
    return float(np.mean(values)) if values else math.nan


def _scores(answer: Answer) -> list[Scores]:
    return [] if isinstance(answer, str) else [attribution.scores for attribution in answer]

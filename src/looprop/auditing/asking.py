"""Methods asked about one writing of a model after the other."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from looprop.auditing.comparing import Agreement, Scores, agreement
from looprop.errors import LoopropError
from looprop.measure import Measured, ask
from looprop.methods.base import Method
from looprop.metrics import pearson
from looprop.models.subject import Subject

CAUGHT = (LoopropError, RuntimeError, ValueError, TypeError, IndexError, NotImplementedError)


@dataclass(frozen=True, eq=False)
class MethodAnswer:
    """What a method gives for the inputs: one result each, or the error that says why there is none."""

    found: tuple[Measured, ...] = ()
    error: str = ""

    @property
    def failed(self) -> bool:
        """Whether there is an error instead of attributions."""
        return bool(self.error)

    @property
    def scores(self) -> list[Scores]:
        """The scores of every input."""
        return [one.scores for one in self.found if one.scores is not None]

    def first(self, count: int) -> "MethodAnswer":
        """The answer on the first inputs."""
        return replace(self, found=self.found[:count])


def ask_inputs(method: Method, subjects: Sequence[Subject], *, batch: bool = True) -> MethodAnswer:
    """What a method says of every input: in one batch, or one by one."""
    # The longest first: what has to be proven of a model once per length is then proven once.
    order = sorted(range(len(subjects)), key=lambda i: -len(subjects[i].encoded))
    groups = [order] if batch else [[i] for i in order]
    said: dict[int, Measured] = {}
    for group in groups:
        # Warnings are kept back: the residual of integrated gradients is one of the checks.
        said |= dict(zip(group, ask(method, [subjects[i] for i in group], catch=CAUGHT, record=True), strict=True))
        if (error := said[group[0]].raised) is not None:
            return MethodAnswer(error=" ".join(str(error).split()) or type(error).__name__)
    return MethodAnswer(tuple(said[i] for i in range(len(subjects))))


def ask_all(
    methods: Mapping[str, Method], subjects: Sequence[Subject], *, batch: bool = True
) -> dict[str, MethodAnswer]:
    """What every method says; of a subject they know what the model answers, and nothing that one of them found out."""
    answers = {}
    for name, method in methods.items():
        answers[name] = ask_inputs(method, [subject.alone() for subject in subjects], batch=batch)
    return answers


def compare(before: MethodAnswer, after: MethodAnswer, tolerance: float) -> Agreement:
    """How far two answers are apart, or why that cannot be said."""
    for answer in (before, after):
        if answer.failed:
            return Agreement(refused=answer.error)
    return agreement(before.scores, after.scores, tolerance)


def mean_r(before: MethodAnswer, after: MethodAnswer) -> float:
    """Mean over inputs of Pearson's r between two answers, NaN where there is none."""
    if before.failed or after.failed:
        return math.nan
    pairs = zip(before.scores, after.scores, strict=True)
    defined = [r for a, b in pairs if not math.isnan(r := pearson(a, b))]
    return float(np.mean(defined)) if defined else math.nan

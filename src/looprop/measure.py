"""One way to ask a method about subjects: its scores, what they cost, and what went wrong.

What it will cost is said before it begins: forward passes as the method states them, and seconds from one.
"""

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from looprop.methods.base import Attribution, Method
from looprop.models.adapter import Removal
from looprop.models.ledger import CheckCost
from looprop.models.subject import Subject

STOPS = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""What ends a run however far it is; everything else that is raised on the way belongs to one example."""
LONGEST_ERROR = 1000  # characters: some errors quote the whole text


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a method gave for one subject, or the error that says why it gave nothing.

    cost: in forward passes, counted by the method. seconds: its time, a share of the call's where several subjects were
    asked at once. checks: the time and the passes of what was computed a second time to be checked, which are not the
    method's. options: of the method. removal: how it removes features, or how it is
    checked if it removes none. warnings: issued on the way. error: why there are no scores; raised: the exception, if
    that was one.
    """

    scores: NDArray[np.float64] | None = None
    cost: float = math.nan
    seconds: float = math.nan
    residual: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    checks: CheckCost = field(default_factory=CheckCost)
    options: Mapping[str, Any] = field(default_factory=dict)
    removal: Removal | None = None
    warnings: tuple[str, ...] = ()
    error: str = ""
    raised: BaseException | None = None


def ask(
    method: Method,
    subjects: Sequence[Subject],
    *,
    catch: tuple[type[BaseException], ...] = (),
    record: bool = False,
) -> list[Outcome]:
    """Ask a method about subjects of one model in one call.

    catch: errors that become the error of every result instead of being raised. record: keep warnings with the results
    instead of issuing them.
    """
    caches = list({id(subject.cache): subject.cache for subject in subjects}.values())
    before = [CheckCost(cache.checks.seconds, cache.checks.passes) for cache in caches]
    attributions: Sequence[Attribution | None] = [None] * len(subjects)
    raised: BaseException | None = None
    options, start = method.options, time.perf_counter()
    with ExitStack() as recording:
        said = recording.enter_context(warnings.catch_warnings(record=True)) if record else None
        if record:
            warnings.simplefilter("always")
        try:
            attributions = method.attribute(subjects)
        except STOPS:
            raise
        except catch as error:
            raised = error
    elapsed = time.perf_counter() - start
    seconds = sum(cache.checks.seconds - was.seconds for cache, was in zip(caches, before, strict=True))
    passes = sum(cache.checks.passes - was.passes for cache, was in zip(caches, before, strict=True))
    checks = CheckCost(seconds / len(subjects), passes / len(subjects))
    blank = Outcome(
        seconds=elapsed / len(subjects) - checks.seconds,
        checks=checks,
        options=options,
        removal=options.get("removal") or method.removes_by or subjects[0].adapter.removals[0],
        warnings=tuple(str(one.message) for one in said or ()),
        raised=raised,
        error="" if raised is None else error_of(raised),
    )
    found = []
    for own in attributions:
        if own is None:
            found.append(blank)
        else:
            scores, cost = np.asarray(own.scores, dtype=np.float64), float(own.cost)
            found.append(replace(blank, scores=scores, cost=cost, residual=own.residual, details=own.details))
    return found


def error_of(error: BaseException) -> str:
    """An error as results keep it."""
    return f"{type(error).__name__}: {str(error)[:LONGEST_ERROR]}"


@dataclass(frozen=True)
class CostEstimate:
    """passes: forward passes of the input, as the method states its cost (docs/limits.md). seconds: so many times what
    one took just now; checks come on top, and what is shared between removals makes it less. at_most: is it a bound?

    >>> print(CostEstimate(40.0, 120.0, at_most=True))
    at most 40 forward passes, about 120 s
    """

    passes: float
    seconds: float
    at_most: bool = False

    def __str__(self) -> str:
        return f"{'at most ' if self.at_most else ''}{self.passes:g} forward passes, about {self.seconds:.3g} s"


def one_pass(subject: Subject) -> float:
    """The seconds that one forward pass of a subject takes just now."""
    start = time.perf_counter()
    with subject.adapter.evaluating(), torch.inference_mode():
        subject.adapter.logits(subject.encoded.inputs, positions=subject.target.positions)
    return time.perf_counter() - start


def estimate(subject: Subject, method: Method, *, each: bool = False) -> CostEstimate:
    """The cost of a method on a subject. each: of a matrix, in which every answer token is explained by itself."""
    passes, at_most = stated_cost(subject, method, each=each)
    return CostEstimate(passes, passes * one_pass(subject), at_most=at_most)


def stated_cost(subject: Subject, method: Method, *, each: bool = False) -> tuple[float, bool]:
    """Forward passes as a method states them for a subject, and whether that is a bound."""
    passes = method.passes(subject)
    if each:
        tokens = len(subject.target.each())
        if method.plan_for(subject.adapter, subject.encoded) is not None:
            passes += (tokens - 1) * (passes - 1)  # the forward pass is shared
        elif not method.shares_removals:
            passes *= tokens
    return passes, method.cost.startswith("at most")


def estimate_run(subject: Subject, methods: Sequence[Method], *, curves: bool, texts: int) -> CostEstimate:
    """What an evaluation of so many texts like this one will cost: the methods, leave-one-out to compare with, and two
    removal curves a method. A bound: what two of them ask for is computed once.
    """
    count = len(subject.features)
    passes = count + sum(stated_cost(subject, method)[0] for method in methods if method.name != "loo")
    passes += 2 * (count - 1) * len(methods) if curves else 0
    return CostEstimate(texts * passes, texts * passes * one_pass(subject), at_most=True)


def spoken(seconds: float) -> str:
    """A time as one says it.

    >>> spoken(8.2), spoken(100), spoken(4000)
    ('8 s', '2 min', '1.1 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"

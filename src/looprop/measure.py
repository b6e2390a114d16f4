"""One way to ask a method about subjects: its scores, what they cost, and what went wrong."""

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looprop.methods.base import Attribution, Method
from looprop.models.ledger import Checks
from looprop.models.subject import Subject
from looprop.removal.trust import check_version

STOPS = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""What ends a run however far it is; everything else that is raised on the way belongs to one example."""
LONGEST_ERROR = 1000  # characters: some errors quote the whole text


@dataclass(frozen=True, eq=False)
class Measured:
    """What a method gave for one subject, or the error that says why it gave nothing.

    cost: in forward passes, counted by the method. seconds: its time, a share of the call's where several subjects were
    asked at once. checks: the time and the passes of what was computed a second time to be checked, which are not the
    method's. options: of the method. warnings: what was said on the way. error: why
    there are no scores; raised: the exception, if that was one.
    """

    scores: NDArray[np.float64] | None = None
    cost: float = math.nan
    seconds: float = math.nan
    residual: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    checks: Checks = field(default_factory=Checks)
    options: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    error: str = ""
    raised: BaseException | None = None


def ask(
    method: Method,
    subjects: Sequence[Subject],
    *,
    catch: tuple[type[BaseException], ...] = (),
    record: bool = False,
) -> list[Measured]:
    """Ask a method about subjects of one model in one call.

    catch: errors that become the error of every result instead of being raised. record: keep warnings with the results
    instead of issuing them.
    """
    caches = list({id(subject.cache): subject.cache for subject in subjects}.values())
    before = [Checks(cache.checks.seconds, cache.checks.passes) for cache in caches]
    attributions: Sequence[Attribution | None] = [None] * len(subjects)
    raised: BaseException | None = None
    options, start = method.options, time.perf_counter()
    with ExitStack() as recording:
        said = recording.enter_context(warnings.catch_warnings(record=True)) if record else None
        if record:
            warnings.simplefilter("always")
        try:
            attributions = method.attribute(subjects)
            for subject in {(id(s.adapter), s.prediction.version): s for s in subjects}.values():
                check_version(subject)
        except STOPS:
            raise
        except catch as error:
            raised = error
    elapsed = time.perf_counter() - start
    seconds = sum(cache.checks.seconds - was.seconds for cache, was in zip(caches, before, strict=True))
    passes = sum(cache.checks.passes - was.passes for cache, was in zip(caches, before, strict=True))
    checks = Checks(seconds / len(subjects), passes / len(subjects))
    blank = Measured(
        seconds=elapsed / len(subjects) - checks.seconds,
        checks=checks,
        options=options,
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

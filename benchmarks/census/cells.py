"""What has to hold for one model: a verdict per method, each against a slow way.

ok: right. refused: a LoopropError, which names what is in the way. crash: any other error. wrong: numbers that the slow
way does not give. none: nothing to hold (the reason says why).
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.census import oracles
from benchmarks.census.cases import LENGTH, Case, ways
from benchmarks.census.oracles import STEPS, Scores
from benchmarks.census.tiny import CannotBuildError, build
from looprop.errors import InputError, LoopropError, ModelError
from looprop.methods import make_method
from looprop.models.subject import Subject

# Relative to the largest score, besides rounding of the logit.
TOLERANCE = 1e-3
ROUNDING = 1e-5
# Architectures whose own arithmetic adds a constant to an activation: it keeps a share, and nothing has to add up.
OWN_CONSTANTS = ("gemma3n", "gemma3n_text")


@dataclass(frozen=True)
class Cell:
    """A verdict and what is to say about it."""

    verdict: str
    reason: str = ""


class WrongError(Exception):
    """Numbers that are not what they should be."""


class NothingToHoldError(Exception):
    """The check says nothing about this model."""


def examine(head: str, architecture: str, class_name: str, length: int = LENGTH) -> dict[str, Any]:
    """The record of one pair of head and architecture: its route and its cells, or why it could not be built or run."""
    record: dict[str, Any] = {"head": head, "architecture": architecture, "class": class_name, "route": "", "cells": {}}
    try:
        model = build(head, architecture, class_name)
    except CannotBuildError as error:
        return {**record, "unbuilt": str(error)}
    refusal, by_name = "", False
    for case in ways(head, architecture, model, length):
        try:
            subject = _bound(case)
        except (ModelError, InputError) as error:
            refusal, by_name = refusal or line(error), True
            continue
        except Exception as error:  # the model itself does not run so
            refusal = refusal or f"{type(error).__name__}: {line(error)}"
            continue
        cells = {name: vars(cell_of(check, case, subject)) for name, check in CHECKS.items()}
        return {**record, "route": case.route, "refusal": refusal, "cells": cells}
    if by_name:
        return {**record, "refusal": refusal, "cells": {name: vars(Cell("refused", refusal)) for name in CHECKS}}
    return {**record, "unbuilt": refusal}


def _bound(case: Case) -> Subject:
    """The case's subject, of a model that answers with numbers, twice the same."""
    subject = case.subject()
    again = case.subject()
    if abs(subject.output - again.output) > ROUNDING * max(1.0, abs(subject.output)):
        raise ModelError("the model answers the same input with different numbers (random hashing?)")
    return subject


def cell_of(check: Callable[[Case, Subject], str], case: Case, subject: Subject) -> Cell:
    """The verdict of one check."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Cell("ok", check(case, subject.alone()))
    except WrongError as error:
        return Cell("wrong", str(error))
    except NothingToHoldError as error:
        return Cell("none", str(error))
    except LoopropError as error:
        return Cell("refused", line(error))
    except Exception as error:  # whatever else comes out is a finding
        return Cell("crash", f"{type(error).__name__}: {line(error)} @ {_place(error)}")


def line(error: BaseException) -> str:
    """The text of an error on one line."""
    return " ".join(str(error).split())[:240]


def _place(error: BaseException) -> str:
    trace, found = error.__traceback__, ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if "/looprop/" in name or "/transformers/" in name:
            found = f"{'/'.join(name.split('/')[-2:])}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def _same(found: Any, wanted: Scores, subject: Subject) -> str:
    known = np.isfinite(wanted)
    if np.shape(found) != wanted.shape or not np.isfinite(found).all():
        raise WrongError(f"{np.shape(found)} scores, not all of them numbers, where {wanted.shape} are wanted")
    error, size = np.abs(found - wanted)[known].max(), np.abs(wanted[known]).max()
    rounding = ROUNDING * max(1.0, abs(subject.output))
    if error > TOLERANCE * size + rounding:
        raise WrongError(f"off by {error:.1g} where the largest is {size:.1g}")
    return "" if size > rounding else "all zero: nothing that is removed has an effect"


def _scores(method: str, subject: Subject, **options: Any) -> Scores:
    return make_method(method, **options).attribute([subject])[0].scores


def _relevance(method: str) -> Callable[[Case, Subject], str]:
    def check(case: Case, subject: Subject) -> str:
        """Scores that are numbers and not all zero, and the model's own logits under the rules."""
        scores = _scores(method, subject)
        if not np.isfinite(scores).all() or not np.abs(scores).max() > 0:
            raise WrongError("scores that are no numbers, or all zero")
        own = case.subject().output
        if abs(subject.output - own) > 1e-4 * max(1e-3, abs(own)):
            raise WrongError(f"the logit changes by {abs(subject.output - own):.1g} under the rules")
        return ""

    return check


def _conservation(case: Case, subject: Subject) -> str:
    """Without additive parameters CP-LRP adds up to the logit, read where positions have been added."""
    if getattr(getattr(getattr(case.model, "model", case.model), "config", None), "model_type", "") in OWN_CONSTANTS:
        raise NothingToHoldError("its own arithmetic adds a constant to an activation")
    if subject.adapter.two_stacks:
        raise NothingToHoldError("what the decoder has said already keeps a share")
    bare = case.subject(oracles.without_additive_parameters(case))
    readout = "word" if bare.adapter.explained_weight is None else "sum"
    scores = _scores("cp-lrp", bare, readout=readout)
    total, size = scores.sum(), np.abs(scores).sum()
    if abs(bare.output) < ROUNDING:
        raise NothingToHoldError("the logit is zero without additive parameters: nothing to add up to")
    if not abs(total - bare.output) <= TOLERANCE * max(abs(bare.output), size):
        raise WrongError(f"relevances add up to {total:.4g}, the logit is {bare.output:.4g}")
    return ""


def _loo(case: Case, subject: Subject) -> str:
    found = _scores("loo", subject)
    wanted = oracles.leave_one_out(subject)
    return "not held: it takes no mask" if wanted is None else _same(found, wanted, subject)


def _looprop(case: Case, subject: Subject) -> str:
    """The default runs, and with all rows it is leave-one-out; where rows cannot be carried, with true values."""
    if case.route == "attribute":
        raise NothingToHoldError("not for plain tensors")
    if not np.isfinite(_scores("looprop", subject)).all():
        raise WrongError("scores that are no numbers")
    truth = _scores("loo", subject.alone(), removal="attention-mask")
    try:
        found = _scores("looprop", subject.alone(), rows="all")
        kind = "rows"
    except InputError as error:
        if "cannot be carried" not in str(error):
            raise
        found = _scores("looprop", subject.alone(), rows=0, refine=len(truth))
        kind = "no rows" + str(error).partition("cannot be carried on their own")[2].partition(": use")[0]
    zero = _same(found, truth, subject)
    return f"{kind}; {zero}" if zero else kind


def _rollout(case: Case, subject: Subject) -> str:
    """Shares of a row, and that row of the product of the attention that the model itself hands out."""
    if case.route == "attribute":
        raise NothingToHoldError("not for plain tensors")
    scores = _scores("rollout", subject)
    if not np.isfinite(scores).all() or scores.min() < -1e-6 or scores.sum() > 1 + 1e-3:
        raise WrongError(f"no shares: from {scores.min():.1g} to {scores.max():.1g}, {scores.sum():.4g} in all")
    rows = oracles.rows_of_rollout(case, subject)
    if rows is None:
        return "not held: the model hands out no weights of its own"
    error = np.abs(rows - scores).max(1).min()
    if error > 1e-4:
        raise WrongError(f"no row of the product of the model's own attention: off by {error:.1g}")
    return ""


def _ig(case: Case, subject: Subject) -> str:
    found = _scores("ig", subject, steps=STEPS)
    wanted = oracles.integrated_gradients(subject)
    return "not held: no single look-up" if wanted is None else _same(found, wanted, subject)


CHECKS: dict[str, Callable[[Case, Subject], str]] = {
    "attnlrp": _relevance("attnlrp"),
    "cp-lrp": _relevance("cp-lrp"),
    "conservation": _conservation,
    "loo": _loo,
    "looprop": _looprop,
    "rollout": _rollout,
    "ig": _ig,
}

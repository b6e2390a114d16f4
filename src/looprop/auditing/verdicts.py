"""A plain verdict per method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from looprop.display.data import correlation

if TYPE_CHECKING:
    from looprop.auditing.result import Checks, Row

Word = Literal["invariant", "depends on the writing", "refused", "not tested"]

# An explanation that stays like this, however many of the model's weights are shuffled, does not look at the model.
IGNORES = 0.9
# A method that promises completeness and leaves out more than this share of the output does not keep its word.
INCOMPLETE = 0.05


@dataclass(frozen=True)
class Verdict:
    """word: the outcome under rewriting. sentence: for people. flags: sanity checks that it fails."""

    word: Word
    sentence: str
    flags: tuple[str, ...] = ()


def judge(rows: Sequence[Row], checks: Checks, tolerance: float) -> Verdict:
    """The verdict on one method from its rows and checks."""
    if checks.refused:
        return Verdict("refused", f"says nothing about this model: {checks.refused}")
    flags = tuple(
        flag
        for flag in (_ignores(checks), _batched(checks, tolerance), _shifted(checks, tolerance), _incomplete(checks))
        if flag
    )
    refused = [row for row in rows if row.refused]
    known = [row for row in rows if not row.refused]
    if not known:
        reason = f": {refused[0].refused}" if refused else ": no rewrite applies to this model"
        return Verdict("not tested", f"could not be compared under any rewrite{reason}", flags)
    worst = max(known, key=lambda row: row.change)
    lost = f"; refused under {', '.join(row.rewrite for row in refused)}" if refused else ""
    if worst.change <= tolerance and not refused:
        number = "1 rewrite" if len(known) == 1 else f"all {len(known)} rewrites"
        return Verdict("invariant", f"the same explanation under {number} ({_tiny(worst.change)})", flags)
    if worst.change <= tolerance:
        return Verdict("depends on the writing", f"the same where it answers{lost}", flags)
    changed = [row for row in known if row.change > tolerance]
    sentence = f"another explanation under {len(changed)} of {len(known)} rewrites, most under {worst.rewrite}"
    sentence += f": scores change by up to {percent(worst.change)}, mean r {correlation(worst.r)}"
    sentence += f", another top token in {percent(worst.top)} of the inputs" if worst.top else ""
    return Verdict("depends on the writing", sentence + lost, flags)


def percent(share: float) -> str:
    """A share in per cent, with as many digits as it deserves.

    >>> percent(1.186), percent(0.0512), percent(0.00012), percent(7.4e16), percent(float("nan"))
    ('119 %', '5.1 %', '0.012 %', '7e+18 %', '–')
    """
    if math.isnan(share):
        return "–"
    return (
        f"{100 * share:.0e} %"
        if share > 1e4
        else f"{100 * share:.0f} %"
        if share >= 0.1 or share == 0
        else f"{100 * share:.2g} %"
    )


def _tiny(change: float) -> str:
    return f"scores change by at most {change:.0e} of the largest" if change else "not one bit of it changes"


def _ignores(checks: Checks) -> str:
    if not checks.randomised or not all(r >= IGNORES for r in checks.randomised):
        return ""
    return (
        "hardly looks at the model: its explanation stays while the weights are shuffled, from the last layer to all "
        f"(r {_all(checks)})"
    )


def _all(checks: Checks) -> str:
    return ", ".join(map(correlation, checks.randomised))


def _batched(checks: Checks, tolerance: float) -> str:
    return (
        f"depends on what else is in the batch (by up to {percent(checks.batched)})"
        if checks.batched > tolerance
        else ""
    )


def _shifted(checks: Checks, tolerance: float) -> str:
    if not checks.shifted > tolerance:
        return ""
    agrees = "" if math.isnan(checks.shifted_r) else f", r {correlation(checks.shifted_r)}"
    return (
        "depends on where the input has its zero (shifted input, same function: by up to "
        f"{percent(checks.shifted)}{agrees})"
    )


def _incomplete(checks: Checks) -> str:
    if not (checks.complete and checks.residual > INCOMPLETE):
        return ""
    return f"promises that its scores add up, and leaves {percent(checks.residual)} of the output unexplained"

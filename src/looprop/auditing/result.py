"""The result of an audit: all rewrites, their effect on each method, the sanity checks, a verdict per method.

NaN stands for "not measured" throughout, and "" for "not refused". In a saved audit NaN is null; verdicts are written
for readers of the file, and judged anew from the numbers when it is loaded. The word of a verdict is about rewriting
alone: does the explanation depend on how the model is written? Sanity checks that a method fails are flags beside it,
since a method may be invariant and still worth nothing (random scores are).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from looprop.display.data import correlation
from looprop.errors import DataError
from looprop.methods.registry import CATALOGUE
from looprop.naming import split_name
from looprop.result.codec import to_data
from looprop.result.writers import Record, Result

Word = Literal["invariant", "depends on the writing", "refused", "not tested"]

SIGNS: dict[Word, str] = {"invariant": "✓", "depends on the writing": "✗", "refused": "–", "not tested": "–"}
BLIND = "hardly looks at the model"
# Thresholds of the sanity checks: the r of an explanation with itself while weights are shuffled, the share of the
# output that a method with completeness leaves out, the largest difference between scores by rules and their slopes.
IGNORES = 0.9
INCOMPLETE = 0.05
OTHER_SLOPES = 0.01


@dataclass(frozen=True)
class MethodVerdict:
    """word: the outcome under rewriting. sentence: for people. flags: sanity checks that it fails."""

    word: Word
    sentence: str
    flags: tuple[str, ...] = ()


def is_blind(method: str, verdict: MethodVerdict) -> bool:
    """Whether a method gives the same scores whatever the model is, so that no rewrite could change them."""
    name = split_name(method)[0]
    knows_nothing = name in CATALOGUE and CATALOGUE[name].kind == "none"
    return verdict.word == "invariant" and (knows_nothing or any(flag.startswith(BLIND) for flag in verdict.flags))


def sign_of(method: str, verdict: MethodVerdict) -> str:
    """A tick for an explanation that stays and depends on the model, a cross for one that changes, a dash for a method
    that is refused, not tested, or blind to the model.
    """
    return "–" if is_blind(method, verdict) else SIGNS[verdict.word]


def said_of(method: str, verdict: MethodVerdict) -> str:
    """The verdict in a few words behind its sign."""
    blind = ", but blind" if is_blind(method, verdict) else ""
    return f"{sign_of(method, verdict)} {verdict.word}{blind}"


def judge(effects: Sequence[RewriteEffect], checks: Checks, tolerance: float) -> MethodVerdict:
    """The verdict on one method from its rows and checks."""
    if checks.refused:
        return MethodVerdict("refused", f"says nothing about this model: {checks.refused}")
    flags = tuple(_flags(checks, tolerance))
    refused = [effect for effect in effects if effect.refused]
    known = [effect for effect in effects if not effect.refused]
    if not known:
        reason = f": {refused[0].refused}" if refused else ": no rewrite applies to this model"
        return MethodVerdict("not tested", f"could not be compared under any rewrite{reason}", flags)
    worst = max(known, key=lambda effect: effect.change)
    lost = f"; refused under {', '.join(effect.rewrite for effect in refused)}" if refused else ""
    if worst.change <= tolerance and not refused:
        number = "1 rewrite" if len(known) == 1 else f"all {len(known)} rewrites"
        bits = f"scores change by at most {worst.change:.0e} of the largest"
        bits = bits if worst.change else "not one bit of it changes"
        return MethodVerdict("invariant", f"the same explanation under {number} ({bits})", flags)
    if worst.change <= tolerance:
        return MethodVerdict("depends on the writing", f"the same where it answers{lost}", flags)
    changed = [effect for effect in known if effect.change > tolerance]
    sentence = f"another explanation under {len(changed)} of {len(known)} rewrites, most under {worst.rewrite}"
    sentence += f": scores change by up to {percent(worst.change)}, mean r {correlation(worst.r)}"
    sentence += f", another top feature in {percent(worst.top)} of the inputs" if worst.top else ""
    return MethodVerdict("depends on the writing", sentence + lost, flags)


def percent(share: float) -> str:
    """A share in per cent, with as many digits as it deserves.

    >>> percent(1.186), percent(0.0512), percent(0.00012), percent(7.4e16), percent(float("nan"))
    ('119 %', '5.1 %', '0.012 %', '7e+18 %', '–')
    """
    if math.isnan(share):
        return "–"
    digits = ".0e" if share > 1e4 else ".0f" if share >= 0.1 or share == 0 else ".2g"
    return f"{100 * share:{digits}} %"


def change_text(change: float, tolerance: float) -> str:
    """A relative change in per cent.

    >>> change_text(0.503, 1e-6), change_text(1e-9, 1e-6), change_text(0.00012, 1e-6), change_text(float("nan"), 1e-6)
    ('50', '0', '0.012', '–')
    """
    return "0" if change <= tolerance else percent(change).removesuffix(" %")


def _flags(checks: Checks, tolerance: float) -> Iterator[str]:
    """A sentence for each sanity check that fails."""
    if checks.slopes > OTHER_SLOPES:
        yield (
            "its scores are not what its rules say: measured slopes differ by up to "
            f"{percent(checks.slopes)} (something in the model works around the graph)"
        )
    if checks.randomised and all(r >= IGNORES for r in checks.randomised):
        agrees = ", ".join(map(correlation, checks.randomised))
        yield f"{BLIND}: its explanation stays while the weights are shuffled, from the last layer to all (r {agrees})"
    if checks.batched > tolerance:
        yield f"depends on what else is in the batch (by up to {percent(checks.batched)})"
    if checks.shifted > tolerance:
        agrees = "" if math.isnan(checks.shifted_r) else f", r {correlation(checks.shifted_r)}"
        yield (
            "depends on where the input has its zero (shifted input, same function: by up to "
            f"{percent(checks.shifted)}{agrees})"
        )
    if checks.complete and checks.residual > INCOMPLETE:
        yield f"promises that its scores add up, and leaves {percent(checks.residual)} of the output unexplained"


Status = Literal["applied", "nothing to change", "refused"]


@dataclass(frozen=True)
class Attempt:
    """One rewrite of the model.

    places: what was changed. unsupported: what was met and left alone, with the reason. logits, gradient: the largest
    relative deviations of the proof, NaN where there was none. reason: of a refusal.
    """

    rewrite: str
    summary: str
    status: Status
    places: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    logits: float = math.nan
    gradient: float = math.nan
    reason: str = ""


@dataclass(frozen=True)
class RewriteEffect:
    """The effect of one rewrite on the explanations of one method.

    r: mean over inputs of Pearson's r, of those where it is defined; lowest_r: the lowest. change: the largest relative
    change of any input. top: the share of inputs whose top feature changes. loo_r: mean r of the explanation after the
    rewrite with leave-one-out. refused: why there is nothing to compare; the numbers are NaN then.
    """

    method: str
    rewrite: str
    r: float = math.nan
    lowest_r: float = math.nan
    change: float = math.nan
    top: float = math.nan
    loo_r: float = math.nan
    refused: str = ""


@dataclass(frozen=True)
class Checks:
    """The sanity checks of one method.

    residual: median over inputs of |f - sum of scores| / |f|, or of the residual that the method states.
    complete: it promises none.
    randomised: mean r with the explanation of the model whose weights are shuffled from the last layer down, by stages.
    shifted, shifted_r: largest relative change and mean r when the input's zero is moved and the model moves it back.
    batched: largest relative change between inputs explained alone and in one batch.
    slopes: by how much scores by rules differ from measured slopes of what the rules say (`checks.slope_gap`).
    loo_r: mean r with leave-one-out.
    refused: why there are none.
    """

    method: str
    residual: float = math.nan
    complete: bool = False
    randomised: tuple[float, ...] = ()
    shifted: float = math.nan
    shifted_r: float = math.nan
    batched: float = math.nan
    slopes: float = math.nan
    loo_r: float = math.nan
    refused: str = ""


@dataclass(frozen=True, eq=False)
class Audit(Result):
    """Methods under equivalent rewrites of one model.

    attempts: what each rewrite did. rows: every method under every rewrite that was carried out. tolerance: up to this
    relative change, an explanation counts as the same.
    about: model, precision, and the manifest: versions, machine, hashes of weights and inputs.
    """

    SCHEMA = "looprop.audit"
    NAMES = MappingProxyType({"attempts": "rewrites"})
    DERIVED = ("verdicts",)

    attempts: tuple[Attempt, ...]
    rows: tuple[RewriteEffect, ...]
    checks: tuple[Checks, ...]
    title: str
    tolerance: float
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def methods(self) -> list[str]:
        """The methods, in the order they were asked for."""
        return [check.method for check in self.checks]

    @property
    def applied(self) -> list[str]:
        """The rewrites that were carried out and proven."""
        return [attempt.rewrite for attempt in self.attempts if attempt.status == "applied"]

    @cached_property
    def verdicts(self) -> dict[str, MethodVerdict]:
        """The verdict on each method, in a word and in a sentence."""
        return {
            check.method: judge([row for row in self.rows if row.method == check.method], check, self.tolerance)
            for check in self.checks
        }

    def row(self, method: str, rewrite: str) -> RewriteEffect:
        """One cell of the table."""
        for row in self.rows:
            if (row.method, row.rewrite) == (method, rewrite):
                return row
        raise DataError(
            f"there is no {method!r} under {rewrite!r}; methods: {', '.join(self.methods)}; rewrites: "
            f"{', '.join(self.applied)}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data, with the verdicts; NaN becomes None."""
        data = super().to_dict()
        for check in data["checks"]:
            if check["slopes"] is None:  # audits of before there was this check stay as they were written
                del check["slopes"]
        return {**data, "verdicts": {method: to_data(found) for method, found in self.verdicts.items()}}

    def records(self) -> list[Record]:
        """One row per method and rewrite."""
        return [asdict(row) for row in self.rows]

    def page(self) -> str:
        """A page of HTML."""
        from looprop.auditing.page import audit_page

        return audit_page(self)

    def _repr_html_(self) -> str:
        from looprop.auditing.page import audit_fragment

        return audit_fragment(self)

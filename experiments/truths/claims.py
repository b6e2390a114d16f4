"""Which reference is a method closer to, and who is closer to a reference: paired tests, corrected for how many there
are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from looprop.evaluation.summary import values_of
from looprop.metrics import Estimate, bootstrap_mean, holm, paired_test
from looprop.naming import split_name
from looprop.running.parts import Row
from looprop.study import JudgedClaim, Run
from looprop.study.claims import ALPHA, with_interval
from looprop.study.report.grids import name_of

from .measuring import METRICS

ATTNLRP, CP_LRP, CANONICAL = "attnlrp", "cp-lrp", "attnlrp[bilinear=canonical]"


@dataclass(frozen=True, eq=False)
class Closeness:
    """r to the Shapley value minus r to leave-one-out, or one method's r minus another's, with the corrected p."""

    difference: Estimate
    adjusted_p: float

    @property
    def decided(self) -> bool | None:
        """Is the first larger (True), the second (False), or neither for sure (None)?"""
        return self.difference.mean > 0 if self.adjusted_p <= ALPHA else None


def closeness(rows: Sequence[Row], methods: Sequence[str]) -> dict[str, Closeness]:
    """Every method: two-sided sign-flip tests over examples, Holm's correction for all of these methods."""
    loo, shapley = (values_of(rows, metric) for metric in METRICS)
    differences = {m: np.array(shapley[m]) - np.array(loo[m]) for m in methods if m in loo}
    return _tested(differences)


def _tested(differences: Mapping[str, NDArray[np.float64]]) -> dict[str, Closeness]:
    if not differences:
        return {}
    tests = [paired_test(d, np.zeros(len(d)), alternative="two-sided") for d in differences.values()]
    adjusted = holm([test.p_value for test in tests])
    pairs = zip(differences.items(), adjusted, strict=True)
    return {name: Closeness(bootstrap_mean(own), float(p)) for (name, own), p in pairs}


def layer_plans_of(run: Run) -> list[str]:
    """Plans with CP-LRP in one layer, in the order of the layers."""
    return [m for m in dict.fromkeys(row["method"] for row in run.rows) if split_name(m)[0] == "lrp"]


def truth_claims(run: Run) -> list[JudgedClaim]:
    """The questions for which a run has rows."""
    plans = layer_plans_of(run)
    found = closeness(run.rows, [ATTNLRP, CP_LRP, CANONICAL, *plans])
    claims = [
        JudgedClaim(f"{name_of(m)} is closer to the Shapley value than to LOO", "", _said(c), c.decided)
        for m, c in found.items()
        if m not in plans
    ]
    if plans:
        claims.append(_layers(found, plans))
    return [*claims, *_rivals(run)]


def _layers(found: Mapping[str, Closeness], plans: Sequence[str]) -> JudgedClaim:
    """Holds where it does for every layer; undecided where for some it is."""
    own = [found[plan] for plan in plans]
    decided = [c.decided for c in own]
    holds = True if all(decided) else False if any(d is False for d in decided) else None
    means = [c.difference.mean for c in own]
    ours = (
        f"{min(means):+.3f} to {max(means):+.3f} over {len(own)} layers; closer to Shapley in {decided.count(True)}, "
        f"to LOO in {decided.count(False)}"
    )
    claim = "AttnLRP with CP-LRP in one layer, whichever, is closer to the Shapley value than to LOO"
    return JudgedClaim(claim, "", ours, holds)


def _rivals(run: Run) -> list[JudgedClaim]:
    """Who is closer to the Shapley value: one family of its own."""
    values = values_of(run.rows, METRICS[1])
    pairs = {
        "CP-LRP is closer to the Shapley value than AttnLRP": (CP_LRP, ATTNLRP),
        "the canonical form is closer to the Shapley value than AttnLRP": (CANONICAL, ATTNLRP),
        "AttnLRP is closer to the Shapley value than LOO is": (ATTNLRP, "loo"),
        "both ends are closer to the Shapley value than AttnLRP": ("both-ends", ATTNLRP),
    }
    differences = {
        claim: np.array(values[a]) - np.array(values[b]) for claim, (a, b) in pairs.items() if {a, b} <= values.keys()
    }
    return [JudgedClaim(claim, "", _said(c), c.decided) for claim, c in _tested(differences).items()]


def _said(found: Closeness) -> str:
    e = found.difference
    return f"{with_interval(e)}, adjusted p = {found.adjusted_p:.2g}, n = {e.count}"

"""The paper's claims as tests on our numbers, whichever way they come out. Which claims there are, the kinds know."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from looprop.metrics import Estimate, bootstrap_mean, paired_test

ALPHA = 0.05
"""What is less likely than this by chance decides a claim."""
HARDLY = 0.1
"""An |r| below it is hardly a correlation."""


@dataclass(frozen=True)
class JudgedClaim:
    """A claim, what the paper prints for it, our numbers, and whether it holds here (None: they do not decide it)."""

    claim: str
    paper: str
    ours: str
    holds: bool | None

    @property
    def verdict(self) -> str:
        """holds, does not hold, undecided"""
        return "undecided" if self.holds is None else "holds" if self.holds else "does not hold"


def with_interval(e: Estimate) -> str:
    """A mean and its interval, with their signs."""
    return f"{e.mean:+.3f} [{e.low:+.3f}, {e.high:+.3f}]"


def judge_difference(differences: NDArray[np.float64], claim: str, paper: str, direction: int = 1) -> JudgedClaim:
    """A claim that differences over examples lie above zero (direction +1) or below (-1)."""
    e = bootstrap_mean(differences)
    test = paired_test(differences, np.zeros(len(differences)), alternative="two-sided")
    ours = f"{with_interval(e)}, p = {test.p_value:.2g}, n = {e.count}"
    return JudgedClaim(claim, paper, ours, test.difference * direction > 0 if test.p_value <= ALPHA else None)

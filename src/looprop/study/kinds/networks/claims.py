"""What the paper claims about RQ1: who depends on the order of multiplication, and who is near leave-one-out."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from looprop.metrics import bootstrap_mean
from looprop.running.parts import Row
from looprop.study.claims import HARDLY, JudgedClaim
from looprop.study.kinds.networks.pairs import LEFT, RIGHT, seed_means, seed_of
from looprop.study.report.names import name_of
from looprop.study.run import Run

ATTNLRP = "attnlrp[epsilon=1e-6]"
NEARLY_ONE = 0.99995
"""Rounds to the 1.0000 that the paper prints."""


def network_claims(run: Run) -> Iterator[JudgedClaim]:
    """The claims for which a run has rows."""
    images = [row for row in run.rows if seed_of(row) is not None]
    for method in ("loo", "ig"):
        if means := _means(images, method, LEFT, "l-r"):
            claim = f"{name_of(method)} does not depend on the implementation"
            ours = f"r(L, R) = {min(means):.6f} to {max(means):.6f} over {len(means)} seeds"
            yield JudgedClaim(claim, "r(L, R) = 1.0000", ours, min(means) >= NEARLY_ONE)
    for column, how in (("l-r", "raw"), ("l-r-paper", "normalised to sum to one")):
        if means := _means(images, ATTNLRP, LEFT, column):
            own = [row[column] for row in images if row["method"] == ATTNLRP and row["network"] == LEFT]
            e = bootstrap_mean(own)
            claim = f"AttnLRP depends on the implementation ({how})"
            ours = f"r(L, R) = {e.mean:.4f} [{e.low:.4f}, {e.high:.4f}], by seed {min(means):.4f} to {max(means):.4f}"
            yield JudgedClaim(claim, "r(L, R) = 0.7865", ours, e.high < 1 and max(means) < 1)
    sides = {side: _means(images, ATTNLRP, side, "loo-r-paper") for side in (LEFT, RIGHT)}
    if all(sides.values()):
        ours = "; ".join(f"{side} {_range(means)}" for side, means in sides.items())
        near_zero = all(abs(float(np.mean(means))) < HARDLY for means in sides.values())
        claim = "AttnLRP hardly correlates with LOO on these networks"
        yield JudgedClaim(claim, "L +0.0730; R −0.0698", ours, near_zero)
    if means := _means(images, "ig", LEFT, "loo-r-paper"):
        claim = "IG correlates negatively with LOO on these networks"
        yield JudgedClaim(claim, "−0.3707", _range(means), max(means) < 0)


def _means(images: Sequence[Row], method: str, side: str, column: str) -> list[float]:
    """By seed, where something is defined."""
    means = seed_means([row for row in images if row["method"] == method], side, column)
    return [mean for mean in means if not math.isnan(mean)]


def _range(means: Sequence[float]) -> str:
    return f"{np.mean(means):+.4f} ({min(means):+.4f} to {max(means):+.4f})"

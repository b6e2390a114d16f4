"""What the paper claims about RQ2: CP-LRP is closer to leave-one-out than AttnLRP, and integrated gradients are far."""

import numpy as np

from looprop.evaluation.summary import values_of
from looprop.metrics import bootstrap_mean
from looprop.study.claims import HARDLY, JudgedClaim, judge_difference, with_interval
from looprop.study.published import published
from looprop.study.run import Run

ATTNLRP, CP_LRP = "attnlrp", "cp-lrp"
METRICS_OF_CLAIMS = (("loo-r", "r"), ("loo-r-no-special", "r without special tokens"), ("delta", "delta"))


def baseline_claims(run: Run) -> list[JudgedClaim]:
    """The claims for which a run has rows."""
    differences = (_cp_against_attnlrp(run, metric, title) for metric, title in METRICS_OF_CLAIMS)
    return [*(claim for claims in differences for claim in claims), *_ig_far_from_loo(run)]


def _cp_against_attnlrp(run: Run, metric: str, title: str) -> list[JudgedClaim]:
    """Higher, or lower where the paper's own numbers are."""
    values = values_of(run.rows, metric)
    if ATTNLRP not in values or CP_LRP not in values:
        return []
    attnlrp, cp = (published("baselines", run.data, method) for method in (ATTNLRP, CP_LRP))
    printed = cp[metric] - attnlrp[metric] if metric in cp else None
    direction = -1 if printed is not None and printed < 0 else 1
    claim = f"CP-LRP's {title} is {'higher' if direction > 0 else 'lower'} than AttnLRP's"
    differences = np.array(values[CP_LRP]) - np.array(values[ATTNLRP])
    return [judge_difference(differences, claim, "–" if printed is None else f"{printed:+.2f}", direction)]


def _ig_far_from_loo(run: Run) -> list[JudgedClaim]:
    values = values_of(run.rows, "loo-r").get("ig")
    if not values:
        return []
    e = bootstrap_mean(values)
    printed = published("baselines", run.data, "ig").get("loo-r")
    ours = f"r = {with_interval(e)}, n = {e.count}"
    claim = f"IG hardly correlates with LOO (|r| below {HARDLY:g})"
    far = max(abs(e.low), abs(e.high)) < HARDLY
    return [JudgedClaim(claim, "–" if printed is None else f"{printed:+.2f}", ours, far)]

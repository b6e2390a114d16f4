"""What the paper claims about texts: CP-LRP is closer to leave-one-out than AttnLRP and integrated gradients are far
(RQ2), and which layers gain from bypassing softmax (RQ3).
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from looprop.evaluation.summary import by_method, values_of
from looprop.metrics import bootstrap_mean, spearman
from looprop.study.claims import ALPHA, HARDLY, PAPER_LAYERS, JudgedClaim, judge_difference, published, with_interval
from looprop.study.kinds.texts.layers import defined_mean, first_layers, layer_entropy, only_layer
from looprop.study.run import Run

ATTNLRP, CP_LRP = "attnlrp", "cp-lrp"
METRICS_OF_CLAIMS = (("loo-r", "r"), ("loo-r-no-special", "r without special tokens"), ("delta", "delta"))
PEAKS = (6, 10)
"""The text of the paper says that single layers peak around these of its twelve; its own table says 10, 9, 7."""
SAME_SCORES = 1e-4
"""Scores that differ by less are the same but for rounding."""


def baseline_claims(run: Run) -> Iterator[JudgedClaim]:
    """The claims for which a run has rows."""
    for metric, title in METRICS_OF_CLAIMS:
        values = values_of(run.rows, metric)
        if ATTNLRP in values and CP_LRP in values:
            # Higher, or lower where the paper's own numbers are.
            attnlrp, cp = (published("baselines", run.data, method) for method in (ATTNLRP, CP_LRP))
            printed = cp[metric] - attnlrp[metric] if metric in cp else None
            direction = -1 if printed is not None and printed < 0 else 1
            claim = f"CP-LRP's {title} is {'higher' if direction > 0 else 'lower'} than AttnLRP's"
            differences = np.array(values[CP_LRP]) - np.array(values[ATTNLRP])
            yield judge_difference(differences, claim, "–" if printed is None else f"{printed:+.2f}", direction)
    if of_ig := values_of(run.rows, "loo-r").get("ig"):
        e = bootstrap_mean(of_ig)
        printed = published("baselines", run.data, "ig").get("loo-r")
        ours = f"r = {with_interval(e)}, n = {e.count}"
        claim = f"IG hardly correlates with LOO (|r| below {HARDLY:g})"
        far = max(abs(e.low), abs(e.high)) < HARDLY
        yield JudgedClaim(claim, "–" if printed is None else f"{printed:+.2f}", ours, far)


def layer_claims(run: Run) -> list[JudgedClaim]:
    """Whether rows that must agree do, then the paper's claims."""
    return [
        _same(run, "L_{:1} and L_1 agree", first_layers(1), only_layer(1)),
        _same(run, "CP-LRP in all layers is CP-LRP", first_layers(run.layers), CP_LRP),
        _later_half(run, "loo-r", "r"),
        _later_half(run, "delta", "delta"),
        _peaks(run),
        _flatness(run),
    ]


def single_layer_gains(run: Run, metric: str) -> NDArray[np.float64]:
    """(K, N): how much CP-LRP in one layer adds to AttnLRP on each example."""
    values = values_of(run.rows, metric)
    base = np.array(values[ATTNLRP])
    return np.array([np.array(values[only_layer(k)]) - base for k in range(1, run.layers + 1)])


def _same(run: Run, claim: str, one: str, other: str) -> JudgedClaim:
    groups = by_method(run.rows)
    differences = (
        abs(x - y)
        for own, twin in zip(groups[one], groups[other], strict=True)
        for x, y in zip(own["scores"], twin["scores"], strict=True)
    )
    largest = max(differences, default=math.nan)
    return JudgedClaim(claim, "the same rows", f"largest difference of a score {largest:.1e}", largest < SAME_SCORES)


def _later_half(run: Run, metric: str, title: str) -> JudgedClaim:
    gains, half = single_layer_gains(run, metric), run.layers // 2  # (K, N)
    later, earlier = defined_mean(gains[half:], axis=0), defined_mean(gains[:half], axis=0)
    which = f"the later half of the layers ({half + 1} to {run.layers})"
    claim = f"the gains in {title} from single layers are larger in {which}"
    paper, base = "–", published("layers", run.data, ATTNLRP).get(metric)
    if base is not None:
        printed = [published("layers", run.data, only_layer(k))[metric] - base for k in range(1, PAPER_LAYERS + 1)]
        paper = f"{np.mean(printed[PAPER_LAYERS // 2 :]) - np.mean(printed[: PAPER_LAYERS // 2]):+.3f}"
    return judge_difference(later - earlier, claim, paper)


def _peaks(run: Run) -> JudgedClaim:
    gains = defined_mean(single_layer_gains(run, "loo-r"), axis=1)
    order = [int(k) + 1 for k in np.argsort(-gains, kind="stable")]
    depth = len(gains) / PAPER_LAYERS
    expected = [peak * depth for peak in PEAKS]
    # "Around" is one layer of the paper's twelve, in the depth of this model.
    near = all(min(abs(k - e) for e in expected) <= max(depth, 0.5) for k in order[:2])
    ranked = ", ".join(f"{k} ({gains[k - 1]:+.3f})" for k in order[:3])
    claim = f"single layers peak around layers {' and '.join(f'{e:g}' for e in expected)} of {len(gains)}"
    return JudgedClaim(claim, "6 and 10 of 12 (its table: 10, 9, 7)", f"highest: {ranked}", near)


def _flatness(run: Run) -> JudgedClaim:
    """Do the layers with flatter attention gain more?"""
    entropy, gains = layer_entropy(run), defined_mean(single_layer_gains(run, "loo-r"), axis=1)
    rho = spearman(entropy, gains)
    # Exact for so few layers: every order of the gains is as likely as any other.
    test = stats.permutation_test(
        (gains,), lambda g: spearman(entropy, g), permutation_type="pairings", n_resamples=9999, rng=0
    )
    p = float(test.pvalue)
    ours = f"Spearman's rho over {len(gains)} layers {rho:+.2f}, p = {p:.2g}"
    claim = "layers with flatter attention gain more"
    return JudgedClaim(claim, "several middle-to-late layers are flatter", ours, rho > 0 if p <= ALPHA else None)

"""What a run layer by layer shows (RQ3): its tables, and what the paper claims about where bypassing softmax helps."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from looprop.evaluation.summary import by_method, values_of
from looprop.metrics import spearman
from looprop.study.claims import ALPHA, JudgedClaim, judge_difference
from looprop.study.kinds.texts.claims import ATTNLRP, CP_LRP
from looprop.study.kinds.texts.layers import defined_mean, first_layers, from_layer, layer_entropy, only_layer
from looprop.study.kinds.texts.tables import main_table, other_metrics
from looprop.study.published import PAPER_LAYERS, published
from looprop.study.report.grids import Cells, Grid, Measured
from looprop.study.run import Run

PEAKS = (6, 10)
"""The text of the paper says that single layers peak around these of its twelve; its own table says 10, 9, 7."""
SAME_SCORES = 1e-4
"""Scores that differ by less are the same but for rounding."""


def layer_tables(run: Run) -> list[Grid]:
    """All tables of a run layer by layer."""
    evaluation, every = run.evaluation(), range(1, run.layers + 1)
    methods = {
        "AttnLRP and CP-LRP": ["loo", "attnlrp", "cp-lrp"],
        "CP-LRP in the first k layers": [first_layers(k) for k in every],
        "CP-LRP from layer k on": [from_layer(k) for k in reversed(every)],
        "CP-LRP in one layer": [only_layer(k) for k in every],
    }
    return [
        *(main_table(run, evaluation, own, title) for title, own in methods.items()),
        _entropies(run),
        other_metrics(evaluation),
    ]


def _entropies(run: Run) -> Grid:
    rows: list[Cells] = [
        [f"layer {k}", Measured(float(entropy), digits=3)] for k, entropy in enumerate(layer_entropy(run), 1)
    ]
    note = "The entropy of attention rows as a share of its maximum, averaged over heads, rows and examples: 1 is flat."
    return Grid("Mean attention entropy", ["layer", "entropy"], rows, note)


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
    return judge_difference(later - earlier, claim, _paper_halves(run, metric))


def _paper_halves(run: Run, metric: str) -> str:
    base = published("layers", run.data, ATTNLRP).get(metric)
    if base is None:
        return "–"
    gains = [published("layers", run.data, only_layer(k))[metric] - base for k in range(1, PAPER_LAYERS + 1)]
    half = PAPER_LAYERS // 2
    return f"{np.mean(gains[half:]) - np.mean(gains[:half]):+.3f}"


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

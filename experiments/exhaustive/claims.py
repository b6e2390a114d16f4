"""What the paper, the data's authors and our own pilot said of these numbers."""

from collections.abc import Sequence

from looprop.evaluation.summary import by_method
from looprop.metrics import bootstrap_mean
from looprop.running.parts import Row
from looprop.study import JudgedClaim, Run
from looprop.study.claims import HARDLY, published, with_interval

from .measuring import OF_POSITIVE, OWN
from .tables import PAPER_MODEL, ROUNDING, values_of

PILOT = {
    "loo": 0.82,
    "both-ends": 0.95,
    "kernelshap": 0.64,
    "lime": 0.77,
    "decompx": 0.71,
    "integrated_gradient": 0.65,
}
"""r to exact Shapley values on the paper's BERT, as a pilot had them before this was built."""
NEAR = 0.04
"""A mean this near to the pilot's is the pilot's; it had other ways to treat a few sentences."""


def exhaustive_claims(run: Run) -> list[JudgedClaim]:
    """All of them; those on the paper's model where it is among the data."""
    rows = run.rows
    claims = [_limits(rows), _unsound_limits(rows), _efficiency(rows), _predicted(rows)]
    if any(row["model"] == PAPER_MODEL for row in rows):
        claims += [_pilot(rows, method, r) for method, r in PILOT.items()]
        claims += [_integrated_gradients(rows, metric, words) for metric, words in INTEGRATED.items()]
    return claims


def _limits(rows: Sequence[Row]) -> JudgedClaim:
    """Where a stored limit is the area of the order that is stored with it."""
    sound = [row for row in rows if row["best error of its order"] <= ROUNDING]
    largest = max(max(row["best error"], row["worst error"]) for row in sound)
    cells = len({row["example"] for row in sound})
    claim = "our exact limits of AOPC are those that were published, wherever these are the areas of their own orders"
    ours = f"largest difference {largest:.1e} on {cells} sentences and models"
    return JudgedClaim(claim, "the stored limits", ours, largest <= ROUNDING)


def _unsound_limits(rows: Sequence[Row]) -> JudgedClaim:
    """A search for the largest sum that begins at zero finds none where all sums are negative."""
    unsound = {row["example"]: row for row in rows if row["best error of its order"] > ROUNDING}
    errors = [abs(row["stored best"] - row["last step alone"]) for row in unsound.values()]
    worst = max((row["worst error"] for row in unsound.values()), default=0.0)
    claim = (
        "the other published upper limits are of no order: they count the last step alone, (f(x) - f(nothing)) / n, "
        "where every order raises the probability"
    )
    largest, cells = max(errors, default=0.0), len({row["example"] for row in rows})
    ours = (
        f"{len(unsound)} of {cells}; they differ from it by {largest:.1e}, their lower limits from ours by {worst:.1e}"
    )
    return JudgedClaim(claim, "the stored limits", ours, largest <= ROUNDING and worst <= ROUNDING)


def _efficiency(rows: Sequence[Row]) -> JudgedClaim:
    largest = max(row["efficiency error"] for row in rows)
    claim = "exact Shapley values add up to f(x) - f(nothing)"
    return JudgedClaim(claim, "an axiom", f"largest difference {largest:.1e}", largest <= ROUNDING)


def _predicted(rows: Sequence[Row]) -> JudgedClaim:
    """Where the model says negative, scores of the predicted class agree with its Shapley values, and scores of the
    positive class disagree.
    """
    negative = [row for row in rows if row["predicted"] == 0]
    signed = [method for method in by_method(rows) if method not in (*OWN, "random_baseline", "attention")]
    means = {
        method: bootstrap_mean([row["shapley-r predicted"] for row in negative if row["method"] == method]).mean
        for method in signed
    }
    holds = bool(means) and all((mean < 0) == (method in OF_POSITIVE) for method, mean in means.items())
    ours = ", ".join(f"{method} {mean:+.2f}" for method, mean in means.items())
    claim = "of the published scores only DecompX's are of the positive class; the others explain the predicted one"
    return JudgedClaim(
        claim, "not stated", f"r to Shapley of the predicted class where that is negative: {ours}", holds
    )


def _pilot(rows: Sequence[Row], method: str, r: float) -> JudgedClaim:
    e = bootstrap_mean(values_of(rows, PAPER_MODEL, method, "shapley-r predicted"))
    ours = f"{with_interval(e)}, n = {e.count}"
    claim = f"r of {method} to exact Shapley values on the paper's BERT is that of the pilot (within {NEAR:g})"
    return JudgedClaim(claim, f"pilot: {r:+.2f}", ours, abs(e.mean - r) <= NEAR)


INTEGRATED = {"loo-r": "raw", "loo-r-paper": "maps normalised to sum to one"}


def _integrated_gradients(rows: Sequence[Row], metric: str, words: str) -> JudgedClaim:
    e = bootstrap_mean(values_of(rows, PAPER_MODEL, "integrated_gradient", metric))
    printed = published("baselines", "sst2", "ig")["loo-r"]
    ours = f"r = {with_interval(e)}, n = {e.count}"
    claim = f"IG hardly correlates with LOO on the paper's own BERT ({words}; |r| below {HARDLY:g})"
    return JudgedClaim(claim, f"{printed:+.2f}", ours, max(abs(e.low), abs(e.high)) < HARDLY)

"""How far scores can be trusted without the truth: r to leave-one-out, estimated from a few true values.

All scores are known, leave-one-out of some features is, and r needs it of all. What is not known is predicted. With x
the scores, centred and scaled to size 1, and y leave-one-out,

    y_i = mean + slope x_i + e_i,    e_i of variance  spread^2 (0.1 + |x_i|)^(2 power) / its mean,

is fitted to the true values by Bayes' rule, under one prior for all models, methods and texts: mean of variance
spread^2 / 2, slope of variance spread^2 / 0.03, every power among 0, 1/4, 1/2, 3/4 and 1 as likely as another. Each
draw of the posterior (with Student's tails, 4 degrees of freedom, as effects have outliers) gives an r, and their
quantiles the estimate and its interval. Where all values are known, r is exact.

Features that stand apart (the read-out, an attention sink) enter r, but not the fit. As effects are no straight line,
intervals are stretched by `STRETCH` on Fisher's scale. Prior and stretch were chosen on one half of the examples of
four runs and are measured on the other (docs/trust.md).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from looprop.errors import InputError
from looprop.metrics.base import Vector, finite_vector
from looprop.metrics.correlation import pearson

Places = NDArray[np.int64]

CONFIDENCE = 0.8
LEAST = 4  # so few true values can say something at all
DRAWS = 400

# The prior; see above.
POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)
FLOOR = 0.1
MEAN_WEIGHT, SLOPE_WEIGHT, SPREAD_WEIGHT = 2.0, 0.03, 0.03  # in observations
TAILS = 4.0  # degrees of freedom
STRETCH = 1.2


@dataclass(frozen=True)
class Trust:
    """An estimate of r to leave-one-out with its interval [low, high], from so many true values.

    exact: all of them are known, so that r is r. NaN where r is undefined.
    """

    r: float
    low: float
    high: float
    known: int
    exact: bool
    confidence: float = CONFIDENCE


def places_to_check(
    scores: ArrayLike, count: int, *, apart: Sequence[int] = (), known: Sequence[int] = (), seed: int = 0
) -> Places:
    """Whose true values to compute so that `count` are known: (n,), in order of position.

    Of eight, up to two are features that stand apart, four those of the largest scores, and the rest is drawn by lot
    from all others. What is `known` already counts, but half of `count`, and four at least, are computed whatever is
    known: a method knows what it chose itself. The lot depends on the seed and on the number of features alone.

    >>> places_to_check([9, 0, 0, -4, 0, 3, 0, 0, 0], 4, apart=[0]).tolist()
    [0, 3, 4, 5]
    """
    values = finite_vector("scores", scores)
    if count < LEAST:
        raise InputError(f"a check needs at least {LEAST} true values, got {count}")
    chosen = {int(i): None for i in known}
    drawn, largest_share = max(1, count // 4), count // 2
    special = list(apart)[:drawn]
    if chosen:
        count = max(count, len(chosen) + max(largest_share, LEAST) + len(set(special) - chosen.keys()))
    if count >= len(values):
        return np.setdiff1d(np.arange(len(values)), list(chosen))
    largest = np.argsort(-np.abs(values), kind="stable")
    of_size = [int(i) for i in largest if i not in special][:largest_share]
    for place in (*special, *of_size):
        if len(chosen) < count - drawn:
            chosen[place] = None
    lot = np.random.default_rng(seed).permutation(len(values))
    others = [int(i) for i in lot if int(i) not in chosen][: max(drawn, count - len(chosen))]
    return np.setdiff1d([*chosen, *others], list(known)).astype(np.int64)


def estimate_r(
    scores: ArrayLike, places: Sequence[int], values: ArrayLike, *, apart: Sequence[int] = (), seed: int = 0
) -> Trust:
    """r of scores to leave-one-out, of which only `values` at `places` are known.

    apart: features that say nothing about the others; also those whose score is their true value, as a method put it
    there. Repeats itself exactly for the same arguments.

    >>> full = estimate_r([1, 2, 3, 5], [0, 1, 2, 3], [1, 2, 4, 5])
    >>> round(full.r, 4), full.low == full.high == full.r, full.exact
    (0.9621, True, True)
    """
    shown, truth = finite_vector("scores", scores), finite_vector("values", values)
    where = np.asarray(places, dtype=np.int64)
    if truth.shape != where.shape:
        raise InputError(f"there must be one value per place, got {len(truth)} for {len(where)}")
    if len(set(where.tolist())) < len(where) or not np.isin(where, np.arange(len(shown))).all():
        raise InputError(f"places must be different numbers of the {len(shown)} features, got {where.tolist()}")
    if len(where) == len(shown):
        r = pearson(shown[where], truth)
        return Trust(r, r, r, len(where), exact=True)
    reference = np.zeros(len(shown))
    reference[where] = truth
    draws = _predictions(shown, reference, where, apart, np.random.default_rng(seed))
    # r of the scores with every draw; NaN where one of them is constant.
    a, b = shown - shown.mean(), draws - draws.mean(1, keepdims=True)
    norms = np.sqrt((a @ a) * (b**2).sum(1))
    found = np.divide(b @ a, norms, out=np.full(len(draws), np.nan), where=norms > 0)
    if not np.isfinite(found).all():
        return Trust(math.nan, math.nan, math.nan, len(where), exact=False)
    tail = (1 - CONFIDENCE) / 2
    ends = np.arctanh(np.clip(np.quantile(found, [tail, 0.5, 1 - tail]), -1 + 1e-9, 1 - 1e-9))
    low, middle, high = np.tanh(ends[1] + STRETCH * (ends - ends[1])).tolist()
    return Trust(middle, low, high, len(where), exact=False)


@dataclass(frozen=True, eq=False)
class _Fit:
    """The posterior for one power.

    variances: (F,) of e_i over spread^2. weights: (2,) mean and slope, precision: (2, 2) theirs over spread^2, which is
    inverse-gamma with shape and rate. evidence: the logarithm of what speaks for the power.
    """

    variances: Vector
    weights: Vector
    precision: Vector
    shape: float
    rate: float
    evidence: float


def _fit(x: Vector, truth: Vector, where: Places, body: Places, power: float) -> _Fit:
    variances = (FLOOR + np.abs(x)) ** (2 * power)
    variances = variances / variances[body].mean()
    exactness = 1 / variances[where]
    columns = np.stack([np.ones(len(where)), x[where]], axis=1)
    precision = columns.T @ (exactness[:, None] * columns) + np.diag([MEAN_WEIGHT, SLOPE_WEIGHT])
    weights = np.linalg.solve(precision, columns.T @ (exactness * truth))
    size = float(exactness @ truth**2)
    # One observation less: the spread is found about a line that was found from the same values.
    shape = (SPREAD_WEIGHT + len(where) - 1) / 2
    rate = (SPREAD_WEIGHT * size / len(where) + max(size - weights @ precision @ weights, 0.0)) / 2
    evidence = np.log(exactness).sum() / 2 - np.linalg.slogdet(precision)[1] / 2
    evidence -= shape * np.log(rate) if rate > 0 else 0.0
    return _Fit(variances, weights, precision, shape, rate, float(evidence))


def _predictions(
    scores: Vector, reference: Vector, where: Places, apart: Sequence[int], rng: np.random.Generator
) -> Vector:
    """Leave-one-out of all features as it may be, known values as they are: (draws, F)."""
    body = np.setdiff1d(np.arange(len(scores)), np.asarray(apart, dtype=np.int64))
    fitted = np.intersect1d(where, body)
    if len(fitted) < LEAST - 1:
        raise InputError(
            f"r cannot be estimated from {len(fitted)} true values of features that do not stand apart: at least "
            f"{LEAST - 1} are needed"
        )
    centred = scores - scores[body].mean()
    size = np.sqrt(np.mean(centred[body] ** 2))
    x = centred / size if size > 0 else centred
    fits = [_fit(x, reference[fitted], fitted, body, power) for power in POWERS]
    odds = np.exp([fit.evidence - max(other.evidence for other in fits) for fit in fits])
    counts = rng.multinomial(DRAWS, odds / odds.sum())
    unknown = np.setdiff1d(np.arange(len(scores)), where)
    draws = np.tile(reference, (DRAWS, 1))
    start = 0
    for fit, count in zip(fits, counts.tolist(), strict=True):
        spread = np.sqrt(fit.rate / rng.gamma(fit.shape, size=count))[:, None]
        about = rng.standard_normal((count, 2)) @ np.linalg.cholesky(np.linalg.inv(fit.precision)).T
        line = fit.weights + spread * about
        tails = rng.standard_t(TAILS, size=(count, len(unknown))) * math.sqrt((TAILS - 2) / TAILS)
        errors = spread * np.sqrt(fit.variances[unknown]) * tails
        draws[start : start + count, unknown] = line[:, :1] + line[:, 1:] * x[unknown] + errors
        start += count
    return draws

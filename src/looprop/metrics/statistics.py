"""How sure a mean over examples is, and whether one method beats another on the same examples.

Undefined values (NaN) are dropped and counted, never replaced. All random numbers come from a seed.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from looprop.errors import InputError, UnknownNameError

Interval = Literal["percentile", "bca"]
Alternative = Literal["greater", "two-sided"]
INTERVALS = ("percentile", "bca")
ALTERNATIVES = ("greater", "two-sided")

BLOCK = 2_000_000  # random draws held in memory at once; large data sets are resampled in blocks of rows


@dataclass(frozen=True)
class Estimate:
    """A mean over examples with its confidence interval [low, high].

    count: examples used; undefined: examples dropped because their value is NaN.
    """

    mean: float
    low: float
    high: float
    count: int
    undefined: int
    confidence: float
    interval: Interval
    resamples: int
    seed: int


@dataclass(frozen=True)
class PairedTest:
    """Whether A beats B on the same examples.

    difference: the mean of A - B, turned round where lower is better: positive means that A is better.
    p_value: of the sign-flip permutation test; exact: all sign patterns were counted instead of a random sample.
    wilcoxon_p: of the Wilcoxon signed-rank test, zero differences dropped. wins, ties, losses: examples on which A is
    better, equal, worse. undefined: pairs dropped because a value is NaN.
    """

    difference: float
    p_value: float
    wilcoxon_p: float
    wins: int
    ties: int
    losses: int
    undefined: int
    alternative: Alternative
    exact: bool
    resamples: int
    seed: int

    @property
    def count(self) -> int:
        return self.wins + self.ties + self.losses


@dataclass(frozen=True)
class Comparison:
    """`better` against `worse` by mean difference, with the p-value corrected for all comparisons made together."""

    better: str
    worse: str
    test: PairedTest
    adjusted_p: float


def bootstrap_mean(
    values: ArrayLike,
    *,
    confidence: float = 0.95,
    interval: Interval = "percentile",
    resamples: int = 2000,
    seed: int = 0,
) -> Estimate:
    """The mean over examples and its bootstrap confidence interval (Efron and Tibshirani 1993, chapters 13 and 14).

    "percentile" takes the quantiles of the resampled means; "bca" corrects them for bias and skew. The bounds are NaN
    with fewer than 2 defined examples.

    >>> e = bootstrap_mean([1.0, 2.0, 3.0, float("nan")])
    >>> e.mean, e.count, e.undefined, e.low <= e.mean <= e.high
    (2.0, 3, 1, True)
    """
    if interval not in INTERVALS:
        raise UnknownNameError("interval", interval, INTERVALS)
    if not 0 < confidence < 1:
        raise InputError(f"confidence must lie between 0 and 1, got {confidence}")
    _check_resamples(resamples)
    everything = _values("values", values)
    defined = everything[~np.isnan(everything)]
    mean = float(defined.mean()) if len(defined) else math.nan
    low = high = math.nan
    if len(defined) >= 2:
        rng = np.random.default_rng(seed)
        drawn = (rng.integers(len(defined), size=(n, len(defined))) for n in _blocks(resamples, len(defined)))
        means = np.concatenate([defined[places].mean(axis=1) for places in drawn])
        tail = (1 - confidence) / 2
        tails = (tail, 1 - tail) if interval == "percentile" else _bca_tails(defined, means, tail)
        low, high = np.quantile(means, tails).tolist()
    undefined = len(everything) - len(defined)
    return Estimate(mean, low, high, len(defined), undefined, confidence, interval, resamples, seed)


def paired_test(
    a: ArrayLike,
    b: ArrayLike,
    *,
    higher_is_better: bool = True,
    alternative: Alternative = "greater",
    resamples: int = 10_000,
    seed: int = 0,
) -> PairedTest:
    """Does A beat B on the same examples? Sign-flip permutation test of the mean difference, with Wilcoxon's test
    beside it.

    If A and B were equally good, every difference could as well have had the other sign. p is the share of sign
    patterns whose mean difference is at least the observed one: of all 2^n patterns where these are no more than
    `resamples`, else of a random sample with the observed pattern counted in, (1 + hits) / (1 + resamples). "greater"
    tests a direction fixed beforehand; use "two-sided" if the data choose which method is called A.

    >>> paired_test([1.0, 2.0, 3.0], [0.0, 0.0, 0.0]).p_value
    0.125
    """
    if alternative not in ALTERNATIVES:
        raise UnknownNameError("alternative", alternative, ALTERNATIVES)
    _check_resamples(resamples)
    a, b = _values("a", a), _values("b", b)
    if len(a) != len(b):
        raise InputError(f"a and b must hold the same examples, got {len(a)} and {len(b)}")
    differences = (a - b) if higher_is_better else (b - a)
    used = differences[~np.isnan(differences)]
    exact = 2 ** min(len(used), 63) <= resamples
    mean, undefined = float(used.mean()) if len(used) else math.nan, len(differences) - len(used)
    p_value = _sign_flip(used, alternative, resamples=resamples, seed=seed, exact=exact)
    wins, ties, losses = (int(found.sum()) for found in (used > 0, used == 0, used < 0))
    tests = (mean, p_value, _wilcoxon(used, alternative))
    return PairedTest(*tests, wins, ties, losses, undefined, alternative, exact, resamples, seed)


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's (1979) step-down correction of p-values for many comparisons. NaN stays NaN and is not counted in m.

    With sorted p_(1) <= ... <= p_(m):  adjusted p_(i) = max over j <= i of (m - j + 1) p_(j), at most 1.
    Rejecting where the adjusted p is at most alpha keeps the chance of any false claim at most alpha.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    raw = _values("p_values", p_values)
    if (wrong := (raw < 0) | (raw > 1)).any():
        raise InputError(f"p-values must lie between 0 and 1, got {raw[wrong][0]}")
    adjusted = np.full(len(raw), math.nan)
    order = np.argsort(raw, kind="stable")[: int((~np.isnan(raw)).sum())]  # NaN sorts last
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * raw[order]), 1.0)
    return adjusted


def compare_all(
    values: Mapping[str, ArrayLike], *, higher_is_better: bool = True, resamples: int = 10_000, seed: int = 0
) -> tuple[Comparison, ...]:
    """Every pair of methods on the same examples: two-sided tests with Holm's correction.

    >>> [found] = compare_all({"x": [1.0, 2.0, 3.0], "y": [2.0, 3.0, 5.0]})
    >>> found.better, found.worse, found.test.p_value, found.adjusted_p
    ('y', 'x', 0.25, 0.25)
    """
    tests = []
    compare = partial(paired_test, higher_is_better=higher_is_better, resamples=resamples, seed=seed)
    for a, b in combinations(values, 2):
        test = compare(values[a], values[b], alternative="two-sided")
        if test.difference < 0:  # the p-values of a two-sided test do not know the direction
            a, b = b, a
            test = replace(test, difference=-test.difference, wins=test.losses, losses=test.wins)
        tests.append((a, b, test))
    adjusted = holm([test.p_value for _, _, test in tests])
    return tuple(Comparison(*test, float(p)) for test, p in zip(tests, adjusted, strict=True))


def _bca_tails(values: NDArray[np.float64], means: NDArray[np.float64], tail: float) -> tuple[float, float]:
    """The tails of the bootstrap distribution that BCa reads, from its bias z0 and the jackknife's acceleration."""
    from scipy import stats  # half a second, which explaining does not need

    centred = values - values.mean()
    if not centred.any():
        return tail, 1 - tail
    # Half of the ties count as below; kept off 0 and 1, whose normal quantiles are infinite.
    below = np.mean(means < values.mean()) / 2 + np.mean(means <= values.mean()) / 2
    bias = stats.norm.ppf(np.clip(below, 0.5 / len(means), 1 - 0.5 / len(means)))
    # The jackknife means differ from the mean by (mean - x_i) / (n - 1): the factor cancels.
    acceleration = np.sum(centred**3) / (6 * np.sum(centred**2) ** 1.5)
    z = bias + stats.norm.ppf([tail, 1 - tail])
    low, high = stats.norm.cdf(bias + z / (1 - acceleration * z))
    return float(low), float(high)


def _sign_flip(
    differences: NDArray[np.float64], alternative: Alternative, *, resamples: int, seed: int, exact: bool
) -> float:
    count = len(differences)
    if not count:
        return math.nan
    size = np.abs(differences).max()
    if size == 0:
        return 1.0
    scaled = differences / size
    total = scaled.sum()
    # Patterns with the observed mean must count as hits although their sums round differently.
    threshold = (abs(total) if alternative == "two-sided" else total) - 1e-12 * count
    rng = np.random.default_rng(seed)
    patterns = 2**count if exact else resamples
    hits, done = 0, 0
    for rows in _blocks(patterns, count):
        if exact:  # (rows, n) the binary digits of the pattern's number
            kept = (np.arange(done, done + rows)[:, None] >> np.arange(count)) & 1
        else:
            kept = rng.integers(0, 2, size=(rows, count), dtype=np.int8)
        totals = 2 * (kept @ scaled) - total  # kept differences count +, the others -
        hits += int(np.sum((np.abs(totals) if alternative == "two-sided" else totals) >= threshold))
        done += rows
    return hits / patterns if exact else (1 + hits) / (1 + patterns)


def _wilcoxon(differences: NDArray[np.float64], alternative: Alternative) -> float:
    from scipy import stats

    nonzero = differences[differences != 0]
    if not len(nonzero):
        return 1.0 if len(differences) else math.nan
    return float(stats.wilcoxon(nonzero, alternative=alternative).pvalue)


def _blocks(rows: int, columns: int) -> Iterator[int]:
    """Row counts that add up to `rows`, each small enough for `BLOCK`."""
    step = max(1, BLOCK // columns)
    for start in range(0, rows, step):
        yield min(step, rows - start)


def _values(name: str, values: ArrayLike) -> NDArray[np.float64]:
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise InputError(f"{name} must be one-dimensional, got shape {vector.shape}")
    bad = np.flatnonzero(np.isinf(vector))
    if len(bad):
        raise InputError(f"{name} must be finite or NaN, got {vector[bad[0]]} at position {bad[0]}")
    return vector


def _check_resamples(resamples: int) -> None:
    if resamples < 1:
        raise InputError(f"resamples must be an integer >= 1, got {resamples}")

"""How well scores agree with leave-one-out: correlations between two maps over the same features.

NaN stands for "undefined": fewer than 3 features, or one of the maps constant (up to rounding). It is never replaced by
0.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from looprop.errors import InputError, UnknownNameError

Protocol = Literal["raw", "paper"]
PROTOCOLS = ("raw", "paper")
MINIMUM_FEATURES = 3

# Spreads and sums below this share of the values' size are rounding errors (the bound scipy.stats.pearsonr warns at).
ROUNDING = 1e-13


@dataclass(frozen=True)
class Correlation:
    """A correlation, with what happened to its sign.

    value: the coefficient in [-1, 1], NaN where it is undefined.
    flipped: True if the normalisation of `protocol="paper"` turned the sign of the raw coefficient around.
    """

    value: float
    flipped: bool = False


def finite_vector(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """`values` as a 1-D float array; an error that names the first offender if it is not finite."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise InputError(f"{name} must be one-dimensional, got shape {vector.shape}")
    bad = np.flatnonzero(~np.isfinite(vector))
    if len(bad):
        raise InputError(
            f"{name} must be finite, got {vector[bad[0]]} at position {bad[0]} ({len(bad)} of {len(vector)} are not "
            "finite)"
        )
    return vector


def pearson(a: ArrayLike, b: ArrayLike) -> float:
    """Pearson's r:  sum (a_i - mean a)(b_i - mean b) / (|a - mean a| |b - mean b|).

    >>> round(pearson([1, 2, 3], [2, 4, 7]), 4)
    0.9934
    >>> pearson([1, 1, 1], [2, 4, 7])
    nan
    """
    a, b = _pair(a, b)
    unit_a, unit_b = _centred_unit(a), _centred_unit(b)
    if unit_a is None or unit_b is None:
        return math.nan
    return float(np.clip(unit_a @ unit_b, -1.0, 1.0))


def spearman(a: ArrayLike, b: ArrayLike) -> float:
    """Spearman's rho: Pearson's r of the ranks, tied values sharing their mean rank.

    >>> spearman([1, 2, 3], [10, 200, 3000])
    1.0
    """
    a, b = _pair(a, b)
    if _centred_unit(a) is None or _centred_unit(b) is None:
        return math.nan
    return pearson(stats.rankdata(a), stats.rankdata(b))


def kendall(a: ArrayLike, b: ArrayLike) -> float:
    """Kendall's tau-b: (concordant - discordant pairs) / sqrt(pairs untied in a * pairs untied in b).

    >>> round(kendall([1, 2, 3], [1, 3, 2]), 4)
    0.3333
    """
    a, b = _pair(a, b)
    if _centred_unit(a) is None or _centred_unit(b) is None:
        return math.nan
    # Only the coefficient is used: the asymptotic p-value is the cheap one.
    return float(stats.kendalltau(a, b, method="asymptotic").statistic)


def sign_agreement(scores: ArrayLike, reference: ArrayLike) -> float:
    """The share of features whose score has the sign of the reference, among those whose reference is not 0.

    A score of 0 agrees with nothing. All-positive scores reach the share of positive references: compare with that, not
    with 0.5.

    >>> sign_agreement([1, -1, 0, 5], [2, 3, 4, 0])
    0.3333333333333333
    """
    scores, reference = _pair(scores, reference)
    counted = reference != 0
    if not counted.any():
        return math.nan
    return float(np.mean(np.sign(scores[counted]) == np.sign(reference[counted])))


KINDS: Mapping[str, Callable[[ArrayLike, ArrayLike], float]] = MappingProxyType(
    {"pearson": pearson, "spearman": spearman, "kendall": kendall}
)


def correlate(
    scores: ArrayLike,
    reference: ArrayLike,
    *,
    kind: str = "pearson",
    mask: ArrayLike | None = None,
    protocol: Protocol = "raw",
) -> Correlation:
    """The correlation of two maps, over the features where `mask` is True (all by default).

    protocol "paper": "all attribution maps are normalized to sum to one per example" (section 4.2). Both whole maps,
    special tokens included, are divided by their sums before the mask applies. Correlations do not see a scale, but
    they see its sign: where exactly one of the two sums is negative the sign flips. A sum that is zero up to rounding
    leaves the result undefined.

    >>> round(correlate([3, 2, 1], [-3, -2, -2]).value, 4)
    -0.866
    >>> found = correlate([3, 2, 1], [-3, -2, -2], protocol="paper")
    >>> round(found.value, 4), found.flipped
    (0.866, True)
    """
    if kind not in KINDS:
        raise UnknownNameError("correlation", kind, KINDS)
    if protocol not in PROTOCOLS:
        raise UnknownNameError("protocol", protocol, PROTOCOLS)
    scores, reference = _pair(scores, reference)
    kept = np.ones(len(scores), dtype=bool) if mask is None else np.asarray(mask)
    if kept.dtype != np.bool_ or kept.shape != scores.shape:
        raise InputError(
            f"mask must hold one boolean per feature: {len(scores)} features, got {kept.dtype} of shape {kept.shape}"
        )
    coefficient = KINDS[kind](scores[kept], reference[kept])
    if protocol == "raw":
        return Correlation(coefficient)
    signs = _sign_of_sum(scores) * _sign_of_sum(reference)
    if signs == 0 or math.isnan(coefficient):
        return Correlation(math.nan)
    return Correlation(signs * coefficient, flipped=signs < 0)


def _sign_of_sum(values: NDArray[np.float64]) -> int:
    """1 or -1, or 0 where the sum is zero up to rounding."""
    largest = np.abs(values).max(initial=0)
    if largest == 0:
        return 0
    scaled = values / largest  # so that huge values do not overflow
    total = math.fsum(scaled)
    return 0 if abs(total) <= ROUNDING * math.fsum(np.abs(scaled)) else int(math.copysign(1, total))


def _pair(a: ArrayLike, b: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    a, b = finite_vector("scores", a), finite_vector("reference", b)
    if a.shape != b.shape:
        raise InputError(f"scores and reference must have the same number of features, got {len(a)} and {len(b)}")
    return a, b


def _centred_unit(values: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """The values minus their mean, scaled to length 1; None where that is undefined."""
    if len(values) < MINIMUM_FEATURES:
        return None
    largest = np.abs(values).max()
    if largest == 0:
        return None
    # Scaled twice, so that neither huge nor tiny values overflow or vanish when squared.
    scaled = values / largest
    centred = scaled - scaled.mean()
    spread = np.abs(centred).max()
    if spread <= ROUNDING:
        return None
    centred = centred / spread
    unit: NDArray[np.float64] = centred / np.sqrt(centred @ centred)
    return unit

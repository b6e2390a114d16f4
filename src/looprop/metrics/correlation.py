"""How well scores agree with a reference, leave-one-out or Shapley values: correlations between two maps over the same
features, and the metrics made of them.

NaN stands for "undefined": fewer than 3 features, or one of the maps constant up to rounding. It is never replaced.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from looprop.errors import InputError
from looprop.metrics.base import Case, Metric, Vector, finite_vector, register
from looprop.naming import one_of

Protocol = Literal["raw", "paper"]
"""How maps are normalised before they are correlated (`correlate`)."""

Reference = Literal["loo", "shapley"]
"""What scores are compared with: leave-one-out or Shapley values."""

PROTOCOLS = ("raw", "paper")
"""The names of all protocols."""

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


def pearson(a: ArrayLike, b: ArrayLike) -> float:
    """Pearson's r:  sum (a_i - mean a)(b_i - mean b) / (|a - mean a| |b - mean b|).

    >>> round(pearson([1, 2, 3], [2, 4, 7]), 4)
    0.9934
    >>> pearson([1, 1, 1], [2, 4, 7])
    nan
    """
    return _pearson(*same_features(a, b))


def spearman(a: ArrayLike, b: ArrayLike) -> float:
    """Spearman's rho: Pearson's r of the ranks, tied values sharing their mean rank.

    >>> spearman([1, 2, 3], [10, 200, 3000])
    1.0
    """
    return _spearman(*same_features(a, b))


def kendall(a: ArrayLike, b: ArrayLike) -> float:
    """Kendall's tau-b: (concordant - discordant pairs) / sqrt(pairs untied in a * pairs untied in b).

    >>> round(kendall([1, 2, 3], [1, 3, 2]), 4)
    0.3333
    """
    return _kendall(*same_features(a, b))


def sign_agreement(scores: ArrayLike, reference: ArrayLike) -> float:
    """The share of features whose score has the sign of the reference, among those whose reference is not 0.

    A score of 0 agrees with nothing. All-positive scores reach the share of positive references, not 0.5.

    >>> sign_agreement([1, -1, 0, 5], [2, 3, 4, 0])
    0.3333333333333333
    """
    return _same_signs(*same_features(scores, reference))


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
    one_of("correlation", kind, KINDS)
    one_of("protocol", protocol, PROTOCOLS)
    scores, reference = same_features(scores, reference)
    kept = np.ones(len(scores), dtype=bool) if mask is None else np.asarray(mask)
    if kept.dtype != np.bool_ or kept.shape != scores.shape:
        raise InputError(
            f"mask must hold one boolean per feature: {len(scores)} features, got {kept.dtype} of shape {kept.shape}"
        )
    return _correlate(scores, reference, kept, kind, protocol)


def same_features(a: ArrayLike, b: ArrayLike) -> tuple[Vector, Vector]:
    """Scores and a reference as vectors of one length."""
    a, b = finite_vector("scores", a), finite_vector("reference", b)
    if a.shape != b.shape:
        raise InputError(f"scores and reference must have the same number of features, got {len(a)} and {len(b)}")
    return a, b


def _correlate(
    scores: Vector, reference: Vector, kept: NDArray[np.bool_], kind: str, protocol: Protocol
) -> Correlation:
    coefficient = KINDS[kind](scores[kept], reference[kept])
    if protocol == "raw":
        return Correlation(coefficient)
    signs = _sign_of_sum(scores) * _sign_of_sum(reference)
    if signs == 0 or math.isnan(coefficient):
        return Correlation(math.nan)
    return Correlation(signs * coefficient, flipped=signs < 0)


def _pearson(a: Vector, b: Vector) -> float:
    unit_a, unit_b = _centred_unit(a), _centred_unit(b)
    return math.nan if unit_a is None or unit_b is None else float(np.clip(unit_a @ unit_b, -1.0, 1.0))


def _spearman(a: Vector, b: Vector) -> float:
    from scipy import stats  # half a second, which explaining does not need

    return math.nan if math.isnan(_pearson(a, b)) else _pearson(stats.rankdata(a), stats.rankdata(b))


def _kendall(a: Vector, b: Vector) -> float:
    from scipy import stats

    if math.isnan(_pearson(a, b)):
        return math.nan
    # Only the coefficient is used: the asymptotic p-value is the cheap one.
    return float(stats.kendalltau(a, b, method="asymptotic").statistic)


KINDS: Mapping[str, Callable[[Vector, Vector], float]] = MappingProxyType(
    {"pearson": _pearson, "spearman": _spearman, "kendall": _kendall}
)


def _same_signs(scores: Vector, reference: Vector) -> float:
    counted = reference != 0
    if not counted.any():
        return math.nan
    return float(np.mean(np.sign(scores[counted]) == np.sign(reference[counted])))


def _sign_of_sum(values: Vector) -> int:
    """1 or -1, or 0 where the sum is zero up to rounding."""
    largest = np.abs(values).max(initial=0)
    if largest == 0:
        return 0
    scaled = values / largest  # so that huge values do not overflow
    total = math.fsum(scaled)
    return 0 if abs(total) <= ROUNDING * math.fsum(np.abs(scaled)) else int(math.copysign(1, total))


def _centred_unit(values: Vector) -> Vector | None:
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
    found: Vector = centred / np.sqrt(centred @ centred)
    return found


REFERENCES: Mapping[str, str] = MappingProxyType({"loo": "leave-one-out", "shapley": "Shapley values"})
"""What scores can be compared with, and what it is called in descriptions."""
TITLES: Mapping[Reference, str] = MappingProxyType({"loo": "LOO", "shapley": "Shapley"})


def reference_metric(
    name: str,
    words: str,
    function: Callable[[Vector, Vector], float],
    reference: Reference,
    *,
    with_special: bool,
    title: str = "",
) -> Metric:
    """A metric of agreement with a reference, over all features or those without special tokens; higher is better."""

    def value(case: Case) -> float:
        kept = slice(None) if with_special else ~cast(NDArray[np.bool_], case.special)
        return function(case.scores[kept], getattr(case, reference)[kept])

    suffix, tokens = ("", "with") if with_special else ("-no-special", "without")
    description = f"{words} between scores and {REFERENCES[reference]}, {tokens} special tokens"
    return Metric(f"{reference}-{name}{suffix}", description, True, frozenset({reference}), value, title=title)


def _normalised(with_special: bool) -> Metric:
    def found(case: Case) -> Correlation:
        special = cast(NDArray[np.bool_], case.special)
        kept = np.ones_like(special) if with_special else ~special
        return _correlate(case.scores, cast(Vector, case.loo), kept, "pearson", "paper")

    words, title = "Pearson's r of maps normalised to sum to one", "r normalised" if with_special else ""
    metric = reference_metric("r-paper", words, _pearson, "loo", with_special=with_special, title=title)
    return replace(metric, function=lambda case: found(case).value, flipped=lambda case: found(case).flipped)


def _sign_metric(reference: Reference) -> Metric:
    return Metric(
        f"{reference}-sign",
        f"share of features whose score has the sign of {REFERENCES[reference]} (features where that is 0 not counted)",
        True,
        frozenset({reference}),
        lambda case: _same_signs(case.scores, getattr(case, reference)),
    )


for _reference, _called in TITLES.items():
    for _special, _more in ((True, ", special tokens too"), (False, "")):
        for _name, _words, _kind, _letter in (
            ("r", "Pearson's r", _pearson, "r"),
            ("spearman", "Spearman's rho", _spearman, "rho"),
            ("kendall", "Kendall's tau-b", _kendall, "tau"),
        ):
            _title = f"{_letter} to {_called}{_more}"
            register(reference_metric(_name, _words, _kind, _reference, with_special=_special, title=_title))
    register(_sign_metric(_reference))
for _special in (True, False):
    register(_normalised(_special))

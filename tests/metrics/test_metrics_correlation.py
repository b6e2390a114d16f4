"""Correlations against scipy, and what must not change them."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from looprop.errors import InputError, UnknownNameError
from looprop.metrics.correlation import KINDS, correlate, kendall, pearson, sign_agreement, spearman

# Integers keep the arithmetic of the properties away from rounding; ties are frequent.
integers = st.integers(min_value=-50, max_value=50)
pairs = st.lists(st.tuples(integers, integers), min_size=3, max_size=30).map(lambda rows: np.array(rows, dtype=float).T)

ORACLES = {
    "pearson": lambda a, b: stats.pearsonr(a, b).statistic,
    "spearman": lambda a, b: stats.spearmanr(a, b).statistic,
    "kendall": lambda a, b: stats.kendalltau(a, b).statistic,
}


def _varies(*maps: NDArray[np.float64]) -> bool:
    return all(len(set(values)) > 1 for values in maps)


@pytest.mark.parametrize("kind", KINDS)
@given(pair=pairs)
def test_equals_scipy(kind: str, pair: NDArray[np.float64]) -> None:
    a, b = pair
    assume(_varies(a, b))
    assert KINDS[kind](a, b) == pytest.approx(ORACLES[kind](a, b), abs=1e-12)


@given(pair=pairs)
def test_kendall_equals_a_loop_over_pairs(pair: NDArray[np.float64]) -> None:
    a, b = pair
    assume(_varies(a, b))
    agreement = untied_a = untied_b = 0
    for i in range(len(a)):
        for j in range(i):
            agreement += int(np.sign(a[i] - a[j]) * np.sign(b[i] - b[j]))
            untied_a += a[i] != a[j]
            untied_b += b[i] != b[j]
    assert kendall(a, b) == pytest.approx(agreement / math.sqrt(untied_a * untied_b), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@given(pair=pairs, factor=st.floats(0.01, 100), shift=st.integers(-100, 100))
def test_affine_maps_do_not_change_it_and_a_negative_factor_turns_it(
    kind: str, pair: NDArray[np.float64], factor: float, shift: int
) -> None:
    a, b = pair
    assume(_varies(a, b))
    measure = KINDS[kind]
    assert measure(2.0**5 * a + shift, b) == pytest.approx(
        measure(a, b), abs=1e-12
    )  # exact in floats: no tie is made or broken
    assert measure(-a, b) == pytest.approx(-measure(a, b), abs=1e-12)
    assert measure(b, a) == pytest.approx(measure(a, b), abs=1e-12)
    assert pearson(factor * a + shift, b) == pytest.approx(pearson(a, b), abs=1e-9)


@given(pair=pairs)
def test_ranks_see_only_the_order(pair: NDArray[np.float64]) -> None:
    a, b = pair
    assume(_varies(a, b))
    assert spearman(a**3, b) == pytest.approx(spearman(a, b), abs=1e-12)
    assert kendall(a**3, b) == pytest.approx(kendall(a, b), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([], []),
        ([1.0, 2.0], [1.0, 2.0]),
        ([5.0, 5.0, 5.0], [1.0, 2.0, 3.0]),
        ([1.0, 2.0, 3.0], [0.0, 0.0, 0.0]),
        ([0.3, 0.1 + 0.2, 0.3], [1.0, 2.0, 3.0]),  # constant up to rounding
    ],
)
def test_undefined_is_nan_not_zero(kind: str, a: list[float], b: list[float]) -> None:
    assert math.isnan(KINDS[kind](a, b))


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_size_of_the_scores_does_not_matter(size: float) -> None:
    a, b = np.array([1.0, 2.0, 4.0, -3.0]), np.array([2.0, 1.0, 5.0, 0.0])
    assert pearson(size * a, b) == pytest.approx(pearson(a, b), abs=1e-12)
    assert correlate(size * a, b, protocol="paper").value == pytest.approx(
        correlate(a, b, protocol="paper").value, abs=1e-12
    )


def test_equal_maps_agree_fully() -> None:
    scores = np.random.default_rng(0).standard_normal(40)
    assert pearson(scores, scores) == pytest.approx(1, abs=1e-15)
    assert -1 <= pearson(scores, -scores) <= -1 + 1e-15


@pytest.mark.parametrize("kind", KINDS)
@given(pair=pairs)
def test_paper_protocol_equals_normalising_literally(kind: str, pair: NDArray[np.float64]) -> None:
    a, b = pair
    assume(_varies(a, b) and a.sum() != 0 and b.sum() != 0)
    literal = ORACLES[kind](
        a / a.sum(), b / b.sum()
    )  # equal integers stay equal when divided: no tie is made or broken
    found = correlate(a, b, kind=kind, protocol="paper")
    assert found.value == pytest.approx(literal, abs=1e-9)
    assert found.flipped == ((a.sum() < 0) != (b.sum() < 0))
    assert abs(found.value) == pytest.approx(abs(correlate(a, b, kind=kind).value), abs=1e-12)


@pytest.mark.parametrize(
    ("sign_a", "sign_b", "flipped"), [(1, 1, False), (1, -1, True), (-1, 1, True), (-1, -1, False)]
)
def test_flip_needs_exactly_one_negative_sum(sign_a: int, sign_b: int, flipped: bool) -> None:
    a, b = sign_a * np.array([1.0, 2.0, 3.0]), sign_b * np.array([1.0, 2.0, 5.0])
    assert correlate(a, b, protocol="paper").flipped is flipped
    assert correlate(a, b).flipped is False
    assert correlate(a, b, protocol="paper").value > 0.9


def test_paper_protocol_without_a_sum_is_undefined() -> None:
    found = correlate([0.1, 0.2, -0.3], [1, 2, 5], protocol="paper")  # the floats add up to 5.6e-17
    assert math.isnan(found.value)
    assert not found.flipped
    assert not math.isnan(correlate([0.1, 0.2, -0.3], [1, 2, 5]).value)


def test_mask_leaves_features_out_but_not_of_the_sum() -> None:
    a, b = np.array([-90.0, 1, 2, 3]), np.array([7.0, 1, 2, 4])
    mask = np.array([False, True, True, True])
    raw = stats.pearsonr(a[1:], b[1:]).statistic
    assert correlate(a, b, mask=mask).value == pytest.approx(raw)
    assert correlate(a, b, mask=mask, protocol="paper").value == pytest.approx(-raw)  # the whole map's sum is negative
    assert math.isnan(correlate(a, b, mask=[True, True, False, False]).value)


def test_sign_agreement_counts_by_hand() -> None:
    assert sign_agreement([1, -2, 3, 0, 9], [5, -1, -1, 2, 0]) == 2 / 4
    assert math.isnan(sign_agreement([1, 2], [0, 0]))


@pytest.mark.parametrize(
    ("a", "b", "options", "message"),
    [
        ([1.0, 2.0, 3.0], [1.0, 2.0], {}, "got 3 and 2"),
        ([1.0, math.nan, 3.0], [1.0, 2.0, 3.0], {}, "scores must be finite, got nan at position 1"),
        ([1.0, 2.0, 3.0], [1.0, 2.0, math.inf], {}, "reference must be finite, got inf at position 2"),
        ([[1.0, 2.0, 3.0]], [1.0, 2.0, 3.0], {}, r"shape \(1, 3\)"),
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], {"mask": [True, False]}, "one boolean per feature"),
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], {"mask": [0, 1, 2]}, "one boolean per feature"),
    ],
)
def test_bad_input_names_the_offender(
    a: list[float], b: list[float], options: dict[str, list[int]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        correlate(a, b, **options)  # type: ignore[arg-type]


def test_unknown_names_get_a_hint() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'pearson'"):
        correlate([1, 2, 3], [1, 2, 3], kind="person")
    with pytest.raises(UnknownNameError, match="unknown protocol 'papers'"):
        correlate([1, 2, 3], [1, 2, 3], protocol="papers")  # type: ignore[arg-type]

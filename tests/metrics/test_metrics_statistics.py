"""Intervals, tests and corrections against enumeration, literal loops and scipy."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from looprop.errors import InputError, UnknownNameError
from looprop.metrics import statistics
from looprop.metrics.statistics import Alternative, Interval, bootstrap_mean, compare_all, holm, paired_test

NAN = math.nan


def test_percentile_interval_equals_the_enumerated_bootstrap_distribution() -> None:
    values = [0.0, 1.0, 3.0, 10.0]
    all_means = [np.mean(sample) for sample in product(values, repeat=4)]  # 4^4 equally likely resamples
    found = bootstrap_mean(values, confidence=0.8, resamples=40_000)
    # The distribution is discrete with steps of 1/4: enough resamples hit the same step.
    assert (found.low, found.high) == (np.quantile(all_means, 0.1), np.quantile(all_means, 0.9))


@pytest.mark.parametrize("interval", ["percentile", "bca"])
def test_interval_equals_scipy_up_to_resampling(interval: Interval) -> None:
    values = np.random.default_rng(3).exponential(size=60)  # skewed, so that the two kinds differ
    found = bootstrap_mean(values, interval=interval, resamples=20_000)
    name = {"percentile": "percentile", "bca": "BCa"}[interval]
    oracle = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method=name, rng=np.random.default_rng(5)
    ).confidence_interval
    error = values.std() / math.sqrt(60)
    assert found.low == pytest.approx(oracle.low, abs=0.06 * error)
    assert found.high == pytest.approx(oracle.high, abs=0.06 * error)


def test_bca_differs_from_percentile_on_skewed_values() -> None:
    values = np.random.default_rng(3).exponential(size=60)
    plain, corrected = (bootstrap_mean(values, interval=kind, resamples=20_000) for kind in ("percentile", "bca"))
    error = values.std() / math.sqrt(60)
    assert corrected.high - plain.high > 0.1 * error  # a long right tail pushes the upper bound up
    assert corrected.low > plain.low


def test_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(11)
    trials = 300
    covered = 0
    for trial in range(trials):
        found = bootstrap_mean(rng.normal(2.0, 1.0, size=50), confidence=0.9, resamples=400, seed=trial)
        covered += found.low <= 2.0 <= found.high
    # 300 trials at 0.9 have a standard error of 0.017; the percentile interval of 50 values is a little narrow.
    assert 0.83 <= covered / trials <= 0.95


def test_wider_confidence_is_wider_and_more_examples_are_narrower() -> None:
    values = np.random.default_rng(0).standard_normal(400)
    width = [bootstrap_mean(v, confidence=c) for v, c in ((values, 0.99), (values, 0.9), (values[:40], 0.9))]
    assert width[0].high - width[0].low > width[1].high - width[1].low
    assert width[2].high - width[2].low > 2 * (width[1].high - width[1].low)


def test_nan_is_dropped_and_counted() -> None:
    found, without = bootstrap_mean([1.0, NAN, 2.0, 4.0, NAN]), bootstrap_mean([1.0, 2.0, 4.0])
    assert (found.count, found.undefined, without.undefined) == (3, 2, 0)
    assert (found.mean, found.low, found.high) == (without.mean, without.low, without.high)


def test_too_few_examples_have_no_interval() -> None:
    for values, mean in (([], NAN), ([NAN, NAN], NAN), ([3.0], 3.0)):
        found = bootstrap_mean(values)
        assert found.mean == pytest.approx(mean, nan_ok=True)
        assert math.isnan(found.low)
        assert math.isnan(found.high)


@pytest.mark.parametrize("interval", ["percentile", "bca"])
def test_equal_values_have_an_interval_of_no_width(interval: Interval) -> None:
    found = bootstrap_mean([2.5] * 6, interval=interval)
    assert (found.low, found.mean, found.high) == (2.5, 2.5, 2.5)


def test_the_seed_decides_and_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).standard_normal(30)
    whole, other = bootstrap_mean(values, seed=1), bootstrap_mean(values, seed=2)
    test = paired_test(values, values[::-1] + 0.1, seed=1)
    assert bootstrap_mean(values, seed=1) == whole
    assert (whole.low, whole.high) != (other.low, other.high)
    monkeypatch.setattr(statistics, "BLOCK", 30 * 128)  # rows in blocks of 128
    assert bootstrap_mean(values, seed=1) == whole
    assert paired_test(values, values[::-1] + 0.1, seed=1) == test


@pytest.mark.parametrize("alternative", ["greater", "two-sided"])
@settings(max_examples=40)
@given(differences=st.lists(st.integers(-4, 4), min_size=1, max_size=7))
def test_sign_flips_equal_a_loop_over_all_patterns(alternative: Alternative, differences: list[int]) -> None:
    found = paired_test(differences, [0] * len(differences), alternative=alternative)
    observed = sum(differences)
    totals = [
        sum(s * d for s, d in zip(signs, differences, strict=True))
        for signs in product((1, -1), repeat=len(differences))
    ]
    hits = [abs(total) >= abs(observed) if alternative == "two-sided" else total >= observed for total in totals]
    assert found.exact
    assert found.p_value == pytest.approx(np.mean(hits))
    assert found.difference == pytest.approx(np.mean(differences))
    assert (found.wins, found.ties, found.losses) == tuple(
        sum(np.sign(d) == s for d in differences) for s in (1, 0, -1)
    )


@pytest.mark.parametrize("alternative", ["greater", "two-sided"])
def test_sampled_sign_flips_and_wilcoxon_equal_scipy(alternative: Alternative) -> None:
    rng = np.random.default_rng(4)
    a = rng.standard_normal(40)
    b = a - rng.normal(0.3, 1.0, size=40)
    found = paired_test(a, b, alternative=alternative, resamples=20_000)

    def mean_difference(x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
        return np.mean(x - y, axis=axis)

    oracle = stats.permutation_test(
        (a, b),
        mean_difference,
        permutation_type="samples",
        n_resamples=20_000,
        alternative=alternative,
        vectorized=True,
        rng=rng,
    )
    assert not found.exact
    assert 0.01 < oracle.pvalue < 0.3  # neither tail: a wrong direction could not pass
    assert found.p_value == pytest.approx(oracle.pvalue, abs=0.015)
    assert found.wilcoxon_p == pytest.approx(stats.wilcoxon(a, b, alternative=alternative).pvalue)


def test_p_is_never_zero() -> None:
    assert paired_test(np.arange(1.0, 101.0), np.zeros(100), resamples=999).p_value == 1 / 1000


def test_lower_is_better_turns_the_direction() -> None:
    a, b = [1.0, 2.0, 1.5, 0.5, 1.0], [2.0, 2.5, 3.5, 3.0, 4.0]
    better = paired_test(a, b, higher_is_better=False)
    assert better == paired_test(b, a)
    assert (better.difference, better.wins, better.p_value) == (pytest.approx(1.8), 5, 1 / 32)
    assert paired_test(a, b).p_value == 1.0


def test_undefined_pairs_are_dropped_and_counted() -> None:
    found = paired_test([1.0, NAN, 3.0, 4.0], [0.0, 0.0, NAN, 0.0])
    assert (found.count, found.undefined, found.difference) == (2, 2, 2.5)
    nothing = paired_test([NAN], [1.0])
    assert math.isnan(nothing.p_value)
    assert math.isnan(nothing.wilcoxon_p)
    assert (nothing.count, nothing.undefined) == (0, 1)


def test_equal_methods_do_not_beat_each_other() -> None:
    found = paired_test([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    assert (found.p_value, found.wilcoxon_p, found.ties) == (1.0, 1.0, 3)


def test_no_more_false_claims_than_promised() -> None:
    rng = np.random.default_rng(8)
    claims = sum(paired_test(*rng.standard_normal((2, 20)), resamples=400).p_value <= 0.1 for _ in range(300))
    assert 0.05 <= claims / 300 <= 0.15  # standard error 0.017


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_equals_the_literal_procedure(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert len(adjusted) == len(p_values)
    # By definition: go up the sorted p-values, rejecting while p <= alpha / (number left), and stop at the first
    # failure.
    for alpha in (0.01, 0.05, 0.2, 0.5, 0.9):
        rejected = set()
        for step, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
            if (len(p_values) - step) * p_values[i] > alpha:
                break
            rejected.add(i)
        assert {i for i, p in enumerate(adjusted) if p <= alpha} == rejected


def test_holm_leaves_nan_alone_and_out_of_the_count() -> None:
    assert holm([0.01, NAN, 0.04]).tolist() == pytest.approx([0.02, NAN, 0.04], nan_ok=True)
    assert holm([]).tolist() == []


def test_compare_all_names_the_better_one_of_each_pair() -> None:
    rng = np.random.default_rng(2)
    base = rng.standard_normal(30)
    values = {"low": base, "middle": base + rng.normal(0.5, 0.3, 30), "high": base + rng.normal(1.0, 0.3, 30)}
    found = compare_all(values, resamples=2000)
    assert {(c.better, c.worse) for c in found} == {("middle", "low"), ("high", "low"), ("high", "middle")}
    assert [c.adjusted_p for c in found] == holm([c.test.p_value for c in found]).tolist()
    assert all(c.test.difference > 0 and c.adjusted_p < 0.01 for c in found)
    assert all(
        c.test == paired_test(values[c.better], values[c.worse], alternative="two-sided", resamples=2000) for c in found
    )
    turned = compare_all(values, higher_is_better=False, resamples=2000)
    assert {(c.worse, c.better) for c in turned} == {(c.better, c.worse) for c in found}
    assert compare_all({"alone": base}) == ()


def test_bad_input_names_the_offender() -> None:
    with pytest.raises(InputError, match=r"between 0 and 1, got 1\.5"):
        bootstrap_mean([1.0, 2.0], confidence=1.5)
    with pytest.raises(InputError, match="resamples must be an integer >= 1, got 0"):
        bootstrap_mean([1.0, 2.0], resamples=0)
    with pytest.raises(InputError, match="values must be finite or NaN, got inf at position 1"):
        bootstrap_mean([1.0, math.inf])
    with pytest.raises(InputError, match="same examples, got 2 and 1"):
        paired_test([1.0, 2.0], [1.0])
    with pytest.raises(InputError, match=r"p-values must lie between 0 and 1, got -0\.1"):
        holm([0.2, -0.1])
    with pytest.raises(UnknownNameError, match="unknown interval 'bcd'"):
        bootstrap_mean([1.0], interval="bcd")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="did you mean 'greater'"):
        paired_test([1.0], [1.0], alternative="great")  # type: ignore[arg-type]

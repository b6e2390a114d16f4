"""Metrics by name: what each reads, what it needs, and the states that are asked for."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import looprop.metrics as metrics
from looprop.errors import InputError, UnknownNameError
from looprop.metrics import base
from looprop.metrics.base import Case, Metric, get_metric, metric_names, register
from looprop.metrics.removal_states import required_states

RNG = np.random.default_rng(7)
SCORES, LOO = RNG.standard_normal(9), RNG.standard_normal(9)
SPECIAL = np.array([True] + [False] * 7 + [True])
CHUNKS = np.array([SCORES[0:4].sum(), SCORES[4:8].sum(), SCORES[8:].sum()])
CASE = Case(
    SCORES,
    loo=LOO,
    special=SPECIAL,
    curve_scores=CHUNKS,
    morf_curve=np.array([1.0, 0.5]),
    lerf_curve=np.array([3.0, 2.0]),
    output=4.0,
)


PROMISED = {"loo-r", "loo-r-no-special", "loo-spearman", "loo-kendall", "loo-r-paper", "loo-sign"}
PROMISED |= {"morf", "lerf", "delta", "aopc", "insertion", "deletion"}


def logits(keep: NDArray[np.bool_]) -> NDArray[np.float64]:
    return keep @ np.array([1.0, 10.0, 100.0])


def test_the_promised_names_exist() -> None:
    assert set(metric_names()) >= PROMISED


def test_exported_names_are_sorted_and_exist() -> None:
    assert list(metrics.__all__) == sorted(metrics.__all__, key=lambda name: (not name.isupper(), name.islower(), name))
    assert all(hasattr(metrics, name) for name in metrics.__all__)


def test_values_of_the_correlations() -> None:
    inner = slice(1, 8)
    assert get_metric("loo-r")(CASE) == pytest.approx(stats.pearsonr(SCORES, LOO).statistic)
    assert get_metric("loo-r-no-special")(CASE) == pytest.approx(stats.pearsonr(SCORES[inner], LOO[inner]).statistic)
    assert get_metric("loo-spearman")(CASE) == pytest.approx(stats.spearmanr(SCORES, LOO).statistic)
    assert get_metric("loo-spearman-no-special")(CASE) == pytest.approx(
        stats.spearmanr(SCORES[inner], LOO[inner]).statistic
    )
    assert get_metric("loo-kendall")(CASE) == pytest.approx(stats.kendalltau(SCORES, LOO).statistic)
    assert get_metric("loo-kendall-no-special")(CASE) == pytest.approx(
        stats.kendalltau(SCORES[inner], LOO[inner]).statistic
    )
    literal = stats.pearsonr(SCORES / SCORES.sum(), LOO / LOO.sum()).statistic
    assert get_metric("loo-r-paper")(CASE) == pytest.approx(literal)


def test_values_of_the_curve_metrics_by_hand() -> None:
    expected = {"morf": 0.75, "lerf": 2.5, "delta": 1.75, "aopc": 3.25, "insertion": 3.0, "deletion": 5.5 / 3}
    assert {name: get_metric(name)(CASE) for name in expected} == pytest.approx(expected)


def test_flipped_is_known_to_the_paper_protocol_only() -> None:
    case = Case(np.array([1.0, 2.0, 3.0]), loo=np.array([-1.0, -2.0, -4.0]))
    flipped = {name for name in metric_names() if get_metric(name).flipped(case)}
    assert flipped == {"loo-r-paper", "loo-r-paper-no-special"}


def test_undefined_is_nan() -> None:
    one = Case(np.array([1.0]), loo=np.array([1.0]), morf_curve=np.array([]), lerf_curve=np.array([]), output=2.0)
    assert all(math.isnan(get_metric(name)(one)) for name in PROMISED - {"loo-sign"})
    constant = Case(np.ones(5), loo=LOO[:5])
    assert math.isnan(get_metric("loo-r")(constant))


def test_what_is_missing_is_named() -> None:
    with pytest.raises(InputError, match="metric 'aopc' needs morf_curve, output, which"):
        get_metric("aopc")(Case(SCORES, loo=LOO))
    with pytest.raises(InputError, match="metric 'loo-r' needs loo"):
        get_metric("loo-r")(Case(SCORES))


def test_unknown_metric_gets_a_hint() -> None:
    with pytest.raises(UnknownNameError, match="unknown metric 'mrof'; did you mean 'morf'"):
        get_metric("mrof")
    with pytest.raises(UnknownNameError, match="unknown metric"):
        required_states(["loo-r", "lurf"], [1.0, 2.0])


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_METRICS", dict(base._METRICS))


@pytest.mark.usefixtures("own_registry")
def test_a_metric_can_be_added_once() -> None:
    count = Metric("features", "number of features", True, frozenset(), lambda case: float(len(case.scores)))
    assert register(count)(CASE) == 9.0
    assert get_metric("features") is count is get_metric(count)
    with pytest.raises(InputError, match="'features' exists already"):
        register(count)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"scores": []}, "at least one feature"),
        ({"scores": [1.0, math.nan]}, "scores must be finite, got nan at position 1"),
        ({"scores": [1.0, 2.0], "loo": [1.0]}, "loo must have length 2"),
        ({"scores": [1.0, 2.0], "special": [True]}, "special must have length 2"),
        ({"scores": [1.0, 2.0], "morf_curve": [1.0, 2.0]}, "morf_curve must have length 1"),
        ({"scores": [1.0, 2.0], "curve_scores": [1.0], "lerf_curve": [1.0]}, "lerf_curve must have length 0"),
        ({"scores": [1.0, 2.0], "lerf_curve": [math.nan]}, "lerf_curve must be finite"),
        ({"scores": [1.0, 2.0], "output": math.nan}, "output must be finite, got nan"),
    ],
)
def test_a_case_refuses_what_does_not_fit(fields: dict[str, list[float]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Case(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], []),
        (["loo-r"], []),
        (["morf"], [101, 1]),
        (["lerf"], [110, 10]),
        (["delta"], [101, 1, 110, 10]),
        (["insertion"], [111, 110, 10]),
        (["deletion", "aopc"], [111, 101, 1]),
        (["lerf", "deletion"], [111, 101, 1, 110, 10]),
    ],
)
def test_only_the_states_that_are_needed_are_asked_for(names: list[str], expected: list[int]) -> None:
    states = required_states(names, [2.0, 5.0, 3.0])  # most relevant first: 1, 2, 0
    assert states.keep.shape == (len(expected), 3)
    assert states.keep.dtype == np.bool_
    # The digits of the logit show what is kept: hundreds feature 2, tens feature 1, ones feature 0.
    assert sorted(logits(states.keep).tolist()) == sorted(expected)


def test_states_fill_a_case_in() -> None:
    scores = np.array([2.0, 5.0, 3.0])
    states = required_states(["deletion", "lerf"], scores)
    case = states.fill(Case(scores), logits(states.keep))
    assert case.output == 111.0
    assert case.morf_curve is not None
    assert case.morf_curve.tolist() == [101.0, 1.0]
    assert case.lerf_curve is not None
    assert case.lerf_curve.tolist() == [110.0, 10.0]
    only_morf = required_states(["morf"], scores)
    assert only_morf.fill(Case(scores, output=5.0), logits(only_morf.keep)).output == 5.0  # what was known stays
    with pytest.raises(InputError, match="5 states, got 2 logits"):
        states.fill(Case(scores), [1.0, 2.0])
    with pytest.raises(InputError, match="logits must be finite, got nan at position 3"):
        states.fill(Case(scores), [1.0, 2.0, 3.0, math.nan, 4.0])


def test_one_feature_asks_for_the_intact_state_only() -> None:
    states = required_states(["delta", "aopc"], [1.0])
    assert states.keep.tolist() == [[True]]
    assert math.isnan(get_metric("delta")(states.fill(Case(np.array([1.0])), [2.0])))
    with pytest.raises(InputError, match="at least one feature"):
        required_states(["delta"], [])

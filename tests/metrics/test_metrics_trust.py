"""r to leave-one-out from a few true values: against r itself, against literal formulas, and on data made by its own
model.
"""

import numpy as np
import pytest

from looprop.errors import InputError
from looprop.metrics import pearson, trust
from looprop.metrics.trust import CONFIDENCE, LEAST, POWERS, estimate_r, places_to_check


def example(seed: int, count: int = 30, noise: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Scores with a few large ones, and a leave-one-out that follows them."""
    rng = np.random.default_rng(seed)
    scores = rng.standard_t(3, size=count)
    return scores, 0.7 * scores + noise * rng.standard_normal(count)


@pytest.mark.parametrize("seed", range(5))
def test_with_all_values_r_is_r(seed: int) -> None:
    scores, loo = example(seed)
    order = np.random.default_rng(seed).permutation(len(scores))
    found = estimate_r(scores, order.tolist(), loo[order])
    assert found.exact
    assert found.known == len(scores)
    assert found.r == found.low == found.high == pytest.approx(np.corrcoef(scores, loo)[0, 1], abs=1e-12)


def test_a_straight_line_is_found_whatever_is_not_known() -> None:
    scores, _ = example(0)
    found = estimate_r(scores, [0, 3, 7, 11, 20, 21], -2.0 * scores[[0, 3, 7, 11, 20, 21]])
    assert found.r == pytest.approx(-1.0, abs=0.02)
    assert found.low <= found.r <= found.high


def test_the_interval_closes_as_values_are_bought() -> None:
    scores, loo = example(1)
    widths = []
    for count in (8, 16, 24, 29):
        places = places_to_check(scores, count, seed=3)
        assert len(places) == count
        found = estimate_r(scores, places.tolist(), loo[places], seed=3)
        widths.append(found.high - found.low)
    assert widths == sorted(widths, reverse=True)


def test_the_same_question_has_the_same_answer() -> None:
    scores, loo = example(2)
    places = places_to_check(scores, 8, seed=5)
    assert places.tolist() == places_to_check(scores, 8, seed=5).tolist()
    assert places.tolist() != places_to_check(scores, 8, seed=6).tolist()
    first, again, other = (estimate_r(scores, places.tolist(), loo[places], seed=s) for s in (5, 5, 6))
    assert first == again
    assert first != other


@pytest.mark.parametrize("power", POWERS)
def test_the_posterior_is_that_of_literal_formulas(power: float) -> None:
    """The line by least squares with two more observations, the prior's; the rest by the whole covariance."""
    scores, loo = example(3)
    where, body = np.array([0, 4, 5, 9, 17, 22]), np.arange(len(scores))
    fit = trust._fit(scores, loo[where], where, body, power)
    variance = np.array([(0.1 + abs(s)) ** (2 * power) for s in scores])
    variance = variance[where] / np.mean(variance)
    rows = np.array([[1, scores[i]] for i in where]) / np.sqrt(variance)[:, None]
    prior = np.diag(np.sqrt([trust.MEAN_WEIGHT, trust.SLOPE_WEIGHT]))
    line = np.linalg.lstsq(np.vstack([rows, prior]), np.r_[loo[where] / np.sqrt(variance), 0, 0], rcond=None)[0]
    assert fit.weights == pytest.approx(line, rel=1e-9)

    columns = np.array([[1, scores[i]] for i in where])
    whole = np.diag(variance) + columns @ np.diag([1 / trust.MEAN_WEIGHT, 1 / trust.SLOPE_WEIGHT]) @ columns.T
    distance = loo[where] @ np.linalg.inv(whole) @ loo[where]
    size = np.mean(loo[where] ** 2 / variance)
    assert fit.rate == pytest.approx((trust.SPREAD_WEIGHT * size + distance) / 2, rel=1e-9)
    constant = 0.5 * np.log(trust.MEAN_WEIGHT * trust.SLOPE_WEIGHT)
    expected = -0.5 * np.log(np.linalg.det(whole)) - fit.shape * np.log(fit.rate)
    assert fit.evidence == pytest.approx(expected - constant, rel=1e-9)


def test_on_data_of_its_own_model_the_interval_holds_what_it_promises() -> None:
    rng = np.random.default_rng(0)
    hits, sides = [], []
    for seed in range(300):
        scores = rng.standard_t(3, size=40)
        variance = (0.1 + np.abs(scores)) ** (2 * POWERS[seed % len(POWERS)])
        loo = rng.normal() + rng.normal() * scores + np.sqrt(variance) * rng.standard_t(trust.TAILS, size=40)
        places = places_to_check(scores, 10, seed=seed)
        found, r = estimate_r(scores, places.tolist(), loo[places], seed=seed), pearson(scores, loo)
        hits.append(found.low <= r <= found.high)
        sides.append(found.r - r)
    # It is stretched for data that are not of its model: it may hold more often here, not less.
    assert CONFIDENCE - 0.03 <= np.mean(hits) <= 0.95
    assert abs(np.mean(sides)) < 0.1


def test_every_other_feature_is_drawn_as_often_as_another() -> None:
    scores = np.r_[np.arange(10.0, 4.0, -1.0), np.full(14, 0.1)]
    drawn = np.zeros(len(scores))
    for seed in range(3000):
        drawn[places_to_check(scores, 8, apart=[0, 19], seed=seed)] += 1
    certain = [0, 1, 2, 3, 4, 19]  # two apart, the four largest of the others
    assert (drawn[certain] == 3000).all()
    others = np.setdiff1d(np.arange(20), certain)
    assert drawn[others].sum() == 2 * 3000
    expected = 2 * 3000 / len(others)
    assert ((drawn[others] - expected) ** 2 / expected).sum() < 40  # chi-squared with 13 degrees: one in 7,000


def test_what_is_known_counts_but_half_is_computed_whatever_is_known() -> None:
    scores = np.linspace(3, 0.1, 30)
    assert len(places_to_check(scores, 8, known=[0, 1])) == 6
    bought = places_to_check(scores, 8, known=range(6))
    assert len(bought) == 4
    assert not set(bought) & set(range(6))
    assert places_to_check(scores, 8, known=range(28)).tolist() == [28, 29]
    assert places_to_check(scores, 40).tolist() == list(range(30))
    assert not len(places_to_check(scores, 8, known=range(30)))


def test_features_apart_enter_r_but_not_the_fit() -> None:
    scores, loo = example(4, noise=0.05)
    loo[0] = -30.0  # a read-out
    places = [0, *places_to_check(scores, 8, apart=[0]).tolist()[1:]]
    apart = estimate_r(scores, places, loo[places], apart=[0])
    together = estimate_r(scores, places, loo[places])
    assert abs(apart.r - pearson(scores, loo)) < 0.02
    assert together.high - together.low > apart.high - apart.low


def test_true_values_that_were_put_in_stand_apart() -> None:
    """Scores into which true values were put look right where they are known, and tell nothing of the others there."""
    honest, fooled = [], []
    for seed in range(100):
        scores, loo = example(seed, noise=2.0)
        largest = np.argsort(-np.abs(scores))[:6].tolist()
        scores[largest] = loo[largest]
        places = [*largest, *places_to_check(scores, 8, known=largest, seed=seed).tolist()]
        r = pearson(scores, loo)
        honest.append(estimate_r(scores, places, loo[places], apart=largest, seed=seed).r - r)
        fooled.append(estimate_r(scores, places, loo[places], seed=seed).r - r)
    assert np.mean(fooled) > 2 * abs(np.mean(honest))


def test_undefined_stays_undefined() -> None:
    found = estimate_r(np.ones(10), [0, 1, 2, 3], [1.0, 2.0, 3.0, 4.0])
    assert np.isnan([found.r, found.low, found.high]).all()
    nothing = estimate_r(np.arange(10.0), [0, 1, 2, 3], np.zeros(4))
    assert np.isnan(nothing.r)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2, 3, 4, 5], [0, 0, 1, 2], [1, 2, 3, 4]), "different numbers"),
        (([1, 2, 3, 4, 5], [0, 1, 2, 9], [1, 2, 3, 4]), "different numbers"),
        (([1, 2, 3, 4, 5], [0, 1, 2], [1, 2, 3, 4]), "one value per place"),
        (([1, 2, 3, 4, 5], [0, 1], [1, 2]), "at least 3 are needed"),
        (([1, 2, float("nan"), 4, 5], [0, 1, 2], [1, 2, 3]), "must be finite"),
    ],
)
def test_what_cannot_be_estimated_is_refused(arguments: tuple[list, list, list], message: str) -> None:
    with pytest.raises(InputError, match=message):
        estimate_r(*arguments)
    with pytest.raises(InputError, match=f"at least {LEAST}"):
        places_to_check(arguments[0][:2], 3)

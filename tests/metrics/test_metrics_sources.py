"""LDS, average precision and recall of sources, against literal loops over orders and scipy."""

import math
from itertools import pairwise, permutations

import numpy as np
import pytest
from scipy import stats

from looprop.errors import InputError
from looprop.metrics.sources import average_precision, best, linear_datamodeling_score, recall_at, standing_out


def test_lds_is_spearman_of_predicted_sums() -> None:
    generator = np.random.default_rng(0)
    scores, sets = generator.normal(size=6), generator.random((64, 6)) < 0.5
    values = generator.normal(size=64)
    predicted = [sum(score for score, kept in zip(scores, row, strict=True) if kept) for row in sets]
    expected = stats.spearmanr(predicted, values).statistic
    assert linear_datamodeling_score(scores, sets, values) == pytest.approx(expected)
    assert linear_datamodeling_score(scores, sets, np.exp(sets @ scores)) == pytest.approx(1.0)
    assert math.isnan(linear_datamodeling_score(np.zeros(6), sets, values))
    with pytest.raises(InputError, match=r"sets must have shape \(64, 6\)"):
        linear_datamodeling_score(scores, sets[:, :5], values)


def precision_by_hand(order: tuple[int, ...], relevant: list[bool]) -> float:
    found, total = 0, 0.0
    for rank, source in enumerate(order, 1):
        if relevant[source]:
            found += 1
            total += found / rank
    return total / sum(relevant)


@pytest.mark.parametrize("scores", [[3, 1, 2, 0], [1, 1, 1, 0], [0, 0, 0, 0], [2, 1, 1, 2]])
@pytest.mark.parametrize("relevant", [[True, False, False, False], [False, True, True, False], [True] * 4])
def test_average_precision_is_the_mean_over_all_orders_of_ties(scores: list[int], relevant: list[bool]) -> None:
    orders = [order for order in permutations(range(4)) if all(scores[a] >= scores[b] for a, b in pairwise(order))]
    expected = np.mean([precision_by_hand(order, relevant) for order in orders])
    assert average_precision(scores, relevant) == pytest.approx(expected)


def test_nothing_relevant_is_undefined() -> None:
    assert math.isnan(average_precision([1.0, 2.0], [False, False]))
    assert math.isnan(recall_at([1.0, 2.0], [False, False], 1))


def test_recall_counts_what_can_be_there() -> None:
    scores, relevant = [0.1, 0.9, 0.5, 0.4], [True, False, True, True]
    assert recall_at(scores, relevant, 1) == 0.0
    assert recall_at(scores, relevant, 2) == 0.5
    assert recall_at(scores, relevant, 3) == pytest.approx(2 / 3)
    assert recall_at(scores, relevant, 4) == 1.0
    assert best(np.array([1.0, 2.0, 2.0]), 2).tolist() == [1, 2]
    with pytest.raises(InputError, match="one flag per source"):
        recall_at(scores, [True], 1)
    with pytest.raises(InputError, match="count must be"):
        recall_at(scores, relevant, 0)


def test_what_stands_out_is_above_tukeys_fence() -> None:
    generator = np.random.default_rng(3)
    for _ in range(20):
        loo = generator.standard_t(2, size=9)
        ordered = sorted(loo)
        low, high = ordered[2], ordered[6]  # quartiles of nine values are values
        assert standing_out(loo).tolist() == [x > high + 1.5 * (high - low) and x > 0 for x in loo]
    assert not standing_out([-1.0, -1.0, -1.0, -1.0, -0.5]).any(), "what speaks against the answer is no source of it"

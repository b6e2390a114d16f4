"""Removal curves: closed forms on an additive model, orders with ties, shared states."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from looprop.errors import InputError
from looprop.metrics.curves import summarise
from looprop.metrics.removal_states import keep_matrix, removal_order

BIAS = 0.75
score_lists = st.lists(st.integers(-5, 5), min_size=1, max_size=12)
distinct_lists = st.lists(st.integers(-100, 100), min_size=2, max_size=12, unique=True)


def additive(keep: NDArray[np.bool_], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """f(keep) = bias + sum of the weights of what is kept."""
    return BIAS + keep @ weights


def interacting(keep: NDArray[np.bool_]) -> NDArray[np.float64]:
    """A different number for every state: the binary number of the kept features, squashed."""
    return np.sin(keep @ 2.0 ** np.arange(keep.shape[1]))


def curve(
    scores: NDArray[np.float64], weights: NDArray[np.float64], *, most_relevant_first: bool
) -> NDArray[np.float64]:
    return additive(keep_matrix(removal_order(scores, most_relevant_first=most_relevant_first)), weights)


@given(weights=distinct_lists)
def test_additive_model_in_closed_form(weights: list[int]) -> None:
    w = np.array(weights, dtype=float)
    count = len(w)
    falling = np.sort(w)[::-1]  # w_(1) > w_(2) > ...
    # Removed at step i, w_(i) is missing from steps i to F-1 and present in the i-1 steps before: the weight counts
    # (i-1)/(F-1).
    morf = BIAS + sum((i - 1) / (count - 1) * falling[i - 1] for i in range(1, count + 1))
    lerf = BIAS + sum((count - i) / (count - 1) * falling[i - 1] for i in range(1, count + 1))
    output = BIAS + w.sum()
    found = summarise(output, curve(w, w, most_relevant_first=True), curve(w, w, most_relevant_first=False))
    assert found.morf == pytest.approx(morf)
    assert found.lerf == pytest.approx(lerf)
    assert found.delta == pytest.approx(lerf - morf)
    assert found.aopc == pytest.approx(output - morf)
    assert found.deletion == pytest.approx((output + (count - 1) * morf) / count)
    assert found.insertion == pytest.approx((output + (count - 1) * lerf) / count)


@given(weights=distinct_lists, data=st.data())
def test_no_order_beats_the_true_weights_of_an_additive_model(weights: list[int], data: st.DataObject) -> None:
    w = np.array(weights, dtype=float)
    other = np.array(data.draw(st.permutations(weights)), dtype=float)
    assert curve(w, w, most_relevant_first=True).mean() <= curve(other, w, most_relevant_first=True).mean() + 1e-9
    assert curve(w, w, most_relevant_first=False).mean() >= curve(other, w, most_relevant_first=False).mean() - 1e-9


@given(scores=score_lists)
def test_morf_of_scores_is_lerf_of_their_negatives(scores: list[int]) -> None:
    # With ties too: both directions go by position.
    s = np.array(scores, dtype=float)
    forwards, backwards = removal_order(s, most_relevant_first=True), removal_order(-s, most_relevant_first=False)
    assert forwards.tolist() == backwards.tolist()


@given(scores=score_lists, most_relevant_first=st.booleans())
def test_order_equals_literal_sorting_with_ties_by_position(scores: list[int], most_relevant_first: bool) -> None:
    sign = -1 if most_relevant_first else 1
    literal = sorted(range(len(scores)), key=lambda i: (sign * scores[i], i))
    assert removal_order(scores, most_relevant_first=most_relevant_first).tolist() == literal


def test_ties_go_by_position_in_both_directions() -> None:
    for most_relevant_first in (True, False):
        assert removal_order([2.0, 2.0, 2.0, 2.0], most_relevant_first=most_relevant_first).tolist() == [0, 1, 2, 3]
        assert removal_order([0.0, -0.0], most_relevant_first=most_relevant_first).tolist() == [0, 1]


@given(order=st.integers(1, 9).flatmap(lambda count: st.permutations(range(count))))
def test_keep_matrix_equals_a_loop(order: list[int]) -> None:
    count = len(order)
    keep = keep_matrix(order)
    assert keep.shape == (count - 1, count)
    assert keep.dtype == np.bool_
    for k in range(1, count):
        assert [i for i in range(count) if not keep[k - 1, i]] == sorted(order[:k])


@given(scores=score_lists.filter(lambda scores: len(scores) > 1))
def test_insertion_and_deletion_equal_a_walk_through_their_own_states(scores: list[int]) -> None:
    s = np.array(scores, dtype=float)
    count = len(s)
    morf_curve = interacting(keep_matrix(removal_order(s, most_relevant_first=True)))
    lerf_curve = interacting(keep_matrix(removal_order(s, most_relevant_first=False)))
    output = float(interacting(np.ones((1, count), dtype=bool))[0])

    # Most relevant first; ties: deletion by position, insertion against it.
    deleted = sorted(range(count), key=lambda i: (-s[i], i))
    added = sorted(range(count), key=lambda i: (-s[i], -i))
    deletion_states = [[i not in deleted[:k] for i in range(count)] for k in range(count)]
    insertion_states = [[i in added[:j] for i in range(count)] for j in range(1, count + 1)]
    found = summarise(output, morf_curve, lerf_curve)
    assert found.deletion == pytest.approx(interacting(np.array(deletion_states)).mean(), abs=1e-12)
    assert found.insertion == pytest.approx(interacting(np.array(insertion_states)).mean(), abs=1e-12)


def test_one_feature_has_no_step_and_gives_nan() -> None:
    assert keep_matrix([0]).shape == (0, 1)
    found = summarise(2.0, [], [])
    for name in ("morf", "lerf", "delta", "aopc", "insertion", "deletion"):
        assert math.isnan(getattr(found, name)), name


def test_bad_input_names_the_offender() -> None:
    with pytest.raises(InputError, match="got nan at position 1"):
        removal_order([1.0, math.nan], most_relevant_first=True)
    for order in ([0, 0, 1], [1, 2, 3], []):
        with pytest.raises(InputError, match="each position from 0 to F-1 once"):
            keep_matrix(order)
    with pytest.raises(InputError, match=r"got 2 \(MoRF\) and 1 \(LeRF\)"):
        summarise(1.0, [1.0, 2.0], [1.0])
    with pytest.raises(InputError, match="morf_curve must be finite, got inf"):
        summarise(1.0, [1.0, math.inf], [1.0, 2.0])

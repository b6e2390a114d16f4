"""Does any feature matter to a reference? By hand and by a literal loop."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from looprop.errors import InputError
from looprop.metrics import MATTERS, largest_share, matters


@given(
    st.lists(st.floats(-10, 10), min_size=1, max_size=8),
    st.floats(-10, 10),
    st.floats(-10, 10),
    st.integers(0, 255),
)
def test_equals_a_literal_loop(effects: list[float], whole: float, nothing: float, bits: int) -> None:
    special = [bool(bits >> i & 1) for i in range(len(effects))]
    largest = 0.0
    for effect, skip in zip(effects, special, strict=True):
        if not skip and abs(effect) > largest:
            largest = abs(effect)
    found = largest_share(effects, whole=whole, nothing=nothing, special=special)
    rounding = 1e-5 * max(abs(whole), abs(nothing))
    if all(special):
        assert math.isnan(found)
    elif largest <= rounding:
        assert found == 0
    elif abs(whole - nothing) <= rounding:
        assert found == math.inf
    else:
        assert found == pytest.approx(largest / abs(whole - nothing))
    assert matters(effects, whole=whole, nothing=nothing, special=special) == (found > 0 and found >= MATTERS)


def test_two_words_that_say_the_same_do_not_matter_one_by_one() -> None:
    """f = max(x1, x2): either can go. The Shapley value gives each its half."""
    leave_one_out, shapley = [0.0, 0.0], [0.5, 0.5]
    assert not matters(leave_one_out, whole=1.0, nothing=0.0)
    assert matters(shapley, whole=1.0, nothing=0.0)


def test_what_only_special_tokens_do_is_not_what_features_do() -> None:
    effects, special = [5.0, 0.001, 0.002], [True, False, False]
    assert matters(effects, whole=2.0, nothing=1.0)
    assert not matters(effects, whole=2.0, nothing=1.0, special=special)


def test_the_threshold_is_a_choice() -> None:
    assert matters([0.1], whole=1.0, nothing=0.0, threshold=0.1)
    assert not matters([0.1], whole=1.0, nothing=0.0, threshold=0.2)


def test_without_features_nothing_matters() -> None:
    assert not matters([1.0], whole=1.0, nothing=0.0, special=[True])


def test_what_cannot_be_asked_is_named() -> None:
    with pytest.raises(InputError, match="finite"):
        largest_share([1.0], whole=math.nan, nothing=0.0)
    with pytest.raises(InputError, match="special must have one entry per feature"):
        largest_share([1.0], whole=1.0, nothing=0.0, special=[True, False])
    with pytest.raises(InputError, match="threshold"):
        matters(np.array([1.0]), whole=1.0, nothing=0.0, threshold=-1.0)

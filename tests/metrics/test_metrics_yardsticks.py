"""Reference scores: blind to the model, and what they say they are."""

import numpy as np
import pytest

from looprop.errors import InputError, UnknownNameError
from looprop.metrics.yardsticks import YARDSTICKS, yardstick


def test_length_leaves_out_markers_blanks_and_special_tokens() -> None:
    features = ["<s>", "Ġgood", "▁film", "##s", " so", "##", "#"]
    found = yardstick("length", features=features, special=[True] + [False] * 6)
    assert found.tolist() == [0, 4, 4, 1, 2, 2, 1]
    assert yardstick("length", features=["<s>"]).tolist() == [3]
    with pytest.raises(InputError, match="1 features, got 2"):
        yardstick("length", features=["a"], special=[True, False])


@pytest.mark.parametrize("name", YARDSTICKS)
def test_every_yardstick_gives_one_finite_score_per_feature(name: str) -> None:
    features = ["[CLS]", "so", "good", "[SEP]"]
    expected = {
        "position": [0, 1, 2, 3],
        "length": [0, 2, 4, 0],
    }
    found = yardstick(name, features=features, special=[True, False, False, True])
    assert found.shape == (4,)
    assert found.dtype == np.float64
    assert np.array_equal(found, expected[name])


def test_unknown_yardstick_gets_a_hint() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'position'"):
        yardstick("positions", features=[])

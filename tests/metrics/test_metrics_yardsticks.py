"""Reference scores: blind to the model, and what they say they are."""

import numpy as np
import pytest

from looprop.errors import InputError, UnknownNameError
from looprop.metrics.yardsticks import YARDSTICKS, length_scores, position_scores, yardstick


def test_position() -> None:
    assert position_scores(4).tolist() == [0, 1, 2, 3]


def test_length_leaves_out_markers_blanks_and_special_tokens() -> None:
    features = ["<s>", "Ġgood", "▁film", "##s", " so", "##", "#"]
    assert length_scores(features, [True] + [False] * 6).tolist() == [0, 4, 4, 1, 2, 2, 1]
    assert length_scores(["<s>"]).tolist() == [3]
    with pytest.raises(InputError, match="1 features, got 2"):
        length_scores(["a"], [True, False])


@pytest.mark.parametrize("name", YARDSTICKS)
def test_every_yardstick_gives_one_finite_score_per_feature(name: str) -> None:
    features = ["[CLS]", "so", "good", "[SEP]"]
    expected = {
        "position": position_scores(4),
        "length": length_scores(features, [True, False, False, True]),
    }
    found = yardstick(name, features=features, special=[True, False, False, True])
    assert found.shape == (4,)
    assert found.dtype == np.float64
    assert np.array_equal(found, expected[name])


def test_unknown_yardstick_gets_a_hint() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'position'"):
        yardstick("positions", features=[])

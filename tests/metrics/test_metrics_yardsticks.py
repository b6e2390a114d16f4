"""Reference scores: repeatable, blind to the model, and what they say they are."""

import os
import subprocess
import sys

import numpy as np
import pytest

from looprop.errors import InputError, UnknownNameError
from looprop.metrics.correlation import pearson
from looprop.metrics.yardsticks import YARDSTICKS, length_scores, position_scores, random_scores, yardstick


def test_random_scores_are_the_same_in_another_process() -> None:
    program = (
        "from looprop.metrics.yardsticks import random_scores; print(random_scores('déjà vu', 4, seed=3).tolist())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": os.pathsep.join(sys.path)}
    output = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert output.strip() == str(random_scores("déjà vu", 4, seed=3).tolist())


def test_random_scores_depend_on_text_and_seed() -> None:
    first = random_scores("a film", 5)
    assert not np.array_equal(first, random_scores("a movie", 5))
    assert not np.array_equal(first, random_scores("a film", 5, seed=1))
    assert not np.array_equal(random_scores("1", 5, seed=2), random_scores("", 5, seed=21))


def test_random_scores_correlate_with_nothing_on_average() -> None:
    reference = np.random.default_rng(0).standard_normal(20)
    found = [pearson(random_scores(f"text {i}", 20), reference) for i in range(400)]
    # r of 20 independent pairs has standard deviation 1/sqrt(19); the mean of 400 has 0.0115.
    assert abs(np.mean(found)) < 4 * 0.0115
    assert np.std(found) == pytest.approx(1 / np.sqrt(19), rel=0.15)


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
        "random": random_scores("so good", 4, seed=2),
        "position": position_scores(4),
        "length": length_scores(features, [True, False, False, True]),
    }
    found = yardstick(name, text="so good", features=features, special=[True, False, False, True], seed=2)
    assert found.shape == (4,)
    assert found.dtype == np.float64
    assert np.array_equal(found, expected[name])


def test_unknown_yardstick_gets_a_hint() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'position'"):
        yardstick("positions", text="", features=[])

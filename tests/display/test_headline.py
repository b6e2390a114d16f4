"""What a person would say: true of the scores it is made of."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from looprop.display.data import Strip, chance
from looprop.display.headline import headline, residual_said

WORDS = ["moving", "funny", "slow", "dull", "[CLS]"]


def said(scores: list[float], **more: object) -> str:
    shown = Strip(WORDS, scores, special=[False] * 4 + [True])
    return headline("positive", shown, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([3.0, 2.0, 0.1, 0.0, 0.0], "positive, mostly because of ‘moving’ and ‘funny’"),
        ([3.0, 0.2, 0.1, 0.0, 9.0], "positive, mostly because of ‘moving’"),
        ([3.0, 0.2, -2.0, 0.0, 0.0], "positive, mostly because of ‘moving’, in spite of ‘slow’"),
        ([3.0, 0.2, -1.0, 0.0, 0.0], "positive, mostly because of ‘moving’"),
        ([1.0, 1.0, 1.0, 1.0, 0.0], "positive, mostly because of ‘moving’, ‘funny’ and ‘slow’"),
        ([-1.0, -1.0, 0.0, math.nan, 5.0], "positive, though nothing speaks for it"),
    ],
)
def test_reasons(scores: list[float], expected: str) -> None:
    assert said(scores) == expected


def test_what_is_no_reason() -> None:
    assert said([1.0] * 5, kind="none") == "positive; these scores know nothing of why"
    assert said([3.0, 0.0, 0.0, 0.0, 0.0], kind="weight") == "positive; most weight lies on ‘moving’"
    assert said([1.0] * 5, nothing_matters=True) == "positive, and no single feature decides it"
    small = [0.01, -0.02, 0.0, 0.0, 0.9]
    assert said(small, output=1.0) == "positive, and no single feature moves it by even 5 %"
    assert "because of" in said(small, output=0.1)
    assert "because of" in said(small, output=1.0, kind="share")


def test_a_word_that_stands_twice_is_named_once_and_line_breaks_are_seen() -> None:
    shown = Strip(["good", "good", "\n", "x" * 60], [2.0, 2.0, 9.0, 0.1])
    assert headline("yes", shown) == "yes, mostly because of ‘good’"
    long = headline("yes", Strip(["x" * 60, "a"], [2.0, 0.0]))
    assert len(long) < 75


def test_more_than_three_weak_reasons_are_not_most_of_it() -> None:
    many = Strip([f"w{i}" for i in range(20)], [1.0] * 20)
    assert headline("yes", many) == "yes, above all because of ‘w0’, ‘w1’ and ‘w2’"


@settings(max_examples=200)
@given(st.lists(st.floats(-10, 10), min_size=1, max_size=12))
def test_mostly_is_said_of_half_of_what_speaks_for_it(scores: list[float]) -> None:
    names = [f"w{i}" for i in range(len(scores))]
    line = headline("yes", Strip(names, scores))
    speaking = {name: score for name, score in zip(names, scores, strict=True) if score > 0}
    if not speaking:
        assert line == "yes, though nothing speaks for it"
        return
    reasons = line.partition(", in spite of")[0]
    named = [name for name in names if f"‘{name}’" in reasons]
    assert 1 <= len(named) <= 3
    assert min(speaking[name] for name in named) >= max([0.0, *(v for n, v in speaking.items() if n not in named)])
    half = sum(speaking[name] for name in named) >= sum(speaking.values()) / 2 * (1 - 1e-12)
    assert ("mostly" in line) == half or math.isclose(sum(speaking[n] for n in named), sum(speaking.values()) / 2)


def test_what_is_left_over_in_words() -> None:
    assert residual_said(1.25, 4.0) == "scores add up to 1.25 less than the output"
    assert residual_said(-27.7, 4.0) == "scores add up to 27.7 more than the output"
    assert residual_said(1e-6, 4.0) == "none: scores add up to the output"
    assert residual_said(math.nan, 4.0) == "not a number"


@given(st.floats(0, 1))
def test_nothing_is_certain_that_is_not(probability: float) -> None:
    shown = chance(probability)
    assert shown != "100.0 %"
    assert shown != "0.0 %"

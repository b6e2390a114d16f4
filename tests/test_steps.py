"""Work in steps: steps that grow while they are short, the same values, and what is known after an interruption."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import looprop
from looprop import progress
from looprop.progress import InterruptedWarning, Steps
from looprop.removal.value import SetFunction
from looprop.workbench import Workbench
from tiny import tiny_classifier, tiny_decoder

TEXT = "the film is not very good and it was bad"
TEXTS = ["the film is good", "the film is bad", "it was very good", "not good", "bad"]


@pytest.fixture(scope="module")
def bench() -> Workbench:
    return looprop.load(tiny_classifier())


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SHORT", -1.0)


def after(times: int) -> Callable[[], bool]:
    """A function that returns True when it is called for that time."""
    calls: list[int] = []

    def stop() -> bool:
        calls.append(1)
        return len(calls) >= times

    return stop


def interrupting(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """Ctrl-C while removals are computed for that time."""
    compute = SetFunction._compute
    calls: list[int] = []

    def interrupted(self: SetFunction, *rest: Any) -> None:
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        compute(self, *rest)

    monkeypatch.setattr(SetFunction, "_compute", interrupted)


def test_steps_grow_while_they_are_short() -> None:
    times = iter([0.0, 0.1, 1.0, 1.1, 2.0, 9.0, 10.0, 19.0, 20.0, 29.0, 30.0, 39.0])
    parts: list[tuple[int, int]] = []
    seen: list[tuple[int, int]] = []
    watched = Steps(lambda done, total: seen.append((done, total)))
    assert watched.run(lambda *part: parts.append(part), 13, "", clock=lambda: next(times))
    assert parts == [(0, 1), (1, 3), (3, 7), (7, 11), (11, 13)], "a step that took long is not followed by a larger one"
    assert seen == [(end, 13) for _, end in parts]


@pytest.mark.parametrize("options", [{"stop": lambda: False}, {"progress": lambda *_: None}])
def test_leave_one_out_in_steps_is_leave_one_out(bench: Workbench, options: dict[str, Any]) -> None:
    plain = bench.explain(TEXT, "loo", check=8)
    found = bench.explain(TEXT, "loo", check=8, **options)
    np.testing.assert_allclose(found.scores, plain.scores, atol=1e-5)
    assert (found.features, found.cost, found.options) == (plain.features, plain.cost, plain.options)
    assert found.check is not None
    assert found.check.exact


@pytest.mark.usefixtures("one_at_a_time")
def test_stopped_leave_one_out_has_the_features_that_were_reached(bench: Workbench) -> None:
    plain = bench.explain(TEXT, "loo")
    with pytest.warns(InterruptedWarning, match=f"{len(plain) - 3} of {len(plain)} features have no score"):
        found = bench.explain(TEXT, "loo", stop=after(3))
    assert found.features == plain.features[:3]
    np.testing.assert_allclose(found.scores, plain.scores[:3], atol=1e-5)
    assert found.cost == 3
    assert found.details["interrupted"] == f"{len(plain) - 3} of {len(plain)} features have no score"


@pytest.mark.usefixtures("one_at_a_time")
def test_ctrl_c_leaves_what_was_computed(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = bench.explain(TEXT, "loo")
    interrupting(monkeypatch, 3)
    with pytest.warns(InterruptedWarning):
        found = bench.explain(TEXT, "loo", progress=lambda *_: None)
    assert found.features == plain.features[:2]


@pytest.mark.usefixtures("one_at_a_time")
def test_a_matrix_in_steps() -> None:
    m = looprop.load(tiny_decoder())
    answer = m.answer("the film is not very good", answer="it was bad")
    plain = m.explain(answer, "loo", output="each", features="token")
    whole = m.explain(answer, "loo", output="each", features="token", progress=lambda *_: None)
    np.testing.assert_allclose(whole.matrix, plain.matrix, atol=1e-5)
    assert whole.explanation.cost == plain.explanation.cost
    with pytest.warns(InterruptedWarning):
        some = m.explain(answer, "loo", output="each", features="token", stop=after(2))
    np.testing.assert_allclose(some.matrix, plain.matrix[:2], atol=1e-5)


@pytest.mark.usefixtures("one_at_a_time")
@pytest.mark.parametrize("method", ["loo", "cp-lrp", None])
def test_a_list_in_steps_keeps_what_is_done(bench: Workbench, method: str | None) -> None:
    plain = bench.explain(TEXTS, method)
    seen: list[tuple[int, int]] = []
    whole = bench.explain(TEXTS, method, progress=lambda done, total: seen.append((done, total)))
    assert [e.text for e in whole] == TEXTS
    assert seen == [(i, len(TEXTS)) for i in range(1, len(TEXTS) + 1)]
    with pytest.warns(InterruptedWarning, match="2 of 5 inputs are explained"):
        some = bench.explain(TEXTS, method, stop=after(2))
    for own, one, other in zip(plain, whole, some, strict=False):
        np.testing.assert_allclose(one.scores, own.scores, atol=1e-5)
        assert other.scores.tolist() == one.scores.tolist()
    assert len(some) == 2


def test_nothing_done_is_no_result(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupting(monkeypatch, 1)
    for item in (TEXT, TEXTS):
        with pytest.raises(KeyboardInterrupt):
            bench.explain(item, "loo", progress=lambda *_: None)
        interrupting(monkeypatch, 1)


def test_a_bar_is_shown_where_it_is_wanted(bench: Workbench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.explain(TEXTS, "cp-lrp", progress=True)
    assert f"{len(TEXTS)}/{len(TEXTS)}" in capsys.readouterr().err
    bench.explain(TEXTS, "cp-lrp")
    assert not capsys.readouterr().err

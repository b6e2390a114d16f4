"""Removals in steps: the same values, steps that grow while they are short, and what is known after an interruption."""

import numpy as np
import pytest

from looprop.removal.steps import in_steps
from looprop.removal.value import SetFunction
from looprop.workbench import Workbench, load
from tiny import tiny_classifier


@pytest.fixture(scope="module")
def bench() -> Workbench:
    return load(tiny_classifier())


TEXT = "the film is not very good and it was bad"


def test_steps_give_the_same_values_and_grow_while_they_are_short(bench: Workbench) -> None:
    value, other = (bench.set_function(TEXT) for _ in range(2))
    keep = ~np.eye(len(value.subject.features), dtype=bool)
    times = iter([0.0, 0.1, 1.0, 1.1, 2.0, 9.0, 10.0, 19.0, 20.0, 29.0, 30.0, 39.0])
    sizes: list[int] = []
    assert in_steps(value, keep, sizes.append, clock=lambda: next(times)).all()
    assert sizes[:3] == [1, 2, 4]
    assert sizes[3] == 4, "a step that took long is not followed by a larger one"
    assert sum(sizes) == len(keep)
    np.testing.assert_allclose(value(keep), other(keep), atol=1e-5)


def test_an_interruption_leaves_what_was_computed(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    value = bench.set_function(TEXT)
    keep = ~np.eye(len(value.subject.features), dtype=bool)
    compute = SetFunction._compute
    calls: list[int] = []

    def interrupted(self: SetFunction, *rest: object) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        compute(self, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(SetFunction, "_compute", interrupted)
    sizes: list[int] = []
    known = in_steps(value, keep, sizes.append, clock=lambda: 0.0)
    assert sizes == [1, 2]
    assert known.tolist() == [True] * 3 + [False] * (len(keep) - 3)

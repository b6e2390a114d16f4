"""Drawing does not run back and forth between files: the way through a strip or a table does not grow with it."""

from collections.abc import Callable

import pytest
from benchmarks.walks import Walk

from looprop.display import Cell, Column, Strip, heat_table, table
from looprop.display.strips import strip


def drawn_strip(count: int) -> str:
    return strip(Strip([f" word{i}" for i in range(count)], [0.5 * i for i in range(count)], known={0: 1.0}))


def drawn_table(count: int) -> str:
    return table(
        [Column("name", tip="of it"), Column("score", bars=True)], [["a", Cell(1.0 + i)] for i in range(count)]
    )


def drawn_heat_map(count: int) -> str:
    return heat_table([f"{i}" for i in range(count)], ["loo"], [[float(i)] for i in range(count)])


@pytest.mark.parametrize("draw", [drawn_strip, drawn_table, drawn_heat_map])
def test_more_features_are_no_longer_way(draw: Callable[[int], str]) -> None:
    draw(50)  # characters are looked up when they are first met
    short, long = (sum(Walk(lambda count=count: draw(count)).by_file.values()) for count in (2, 50))
    assert short == long <= 6

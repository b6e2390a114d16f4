"""Terminals: colours with their own text colour, numbers where there is no colour, hostile text harmless."""

import io
import math
import re

import pytest
from rich.console import Console, RenderableType

from looprop.display import terminal
from looprop.display.colour import TERMINAL
from looprop.display.data import Cell, Column, Strip

SHOWN = Strip(
    ["[CLS]", "not", "bad", "##ly", "x"],
    [0.0, 1.0, -2.0, 0.5, 99.0],
    joined=[False, False, False, True, False],
    outside_scale=frozenset({4}),
)


def printed(what: RenderableType, *, colour: bool) -> str:
    file = io.StringIO()
    console = Console(
        file=file,
        width=90,
        force_terminal=colour,
        color_system="truecolor" if colour else None,
        no_color=not colour,
        _environ={},
    )
    console.print(what)
    return file.getvalue()


def test_without_colour_there_are_numbers_and_no_escapes() -> None:
    text = printed(terminal.explanation(SHOWN, colour=False), colour=False)
    assert "\x1b" not in text
    assert "[CLS][0.00] not[+1.00] bad[−2.00] ##ly[+0.50] x[+99.00]" in text


def test_colours_come_with_their_text_colour() -> None:
    text = printed(terminal.strip(SHOWN, colour=True), colour=True)
    styles = re.findall(r"\x1b\[([\d;]+)m", text)
    for codes in styles:
        if ";48;2;" in f";{codes}":
            assert codes.startswith("38;2;0;0;0"), "black text on every chip"
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)
    assert plain == "[CLS] not bad##ly x\n"
    end = tuple(int(TERMINAL.negative[i : i + 2], 16) for i in (1, 3, 5))
    assert "48;2;{};{};{}m{}".format(*end, "bad") in text


def test_bars_go_both_ways() -> None:
    assert terminal.bar(0.5, colour=False, width=4).plain == "    │++  "
    assert terminal.bar(-1.0, colour=False, width=4).plain == "----│    "
    assert terminal.bar(None, colour=False, width=2).plain == "  │  "


def test_strongest_features_and_the_rest() -> None:
    text = printed(terminal.feature_table(SHOWN, colour=False, limit=2), colour=False)
    assert text.index("x") < text.index("bad")
    assert "and 3 weaker features" in text


def test_comparison_with_r() -> None:
    rows = [Strip(["a"], [1.0], name="loo", r=1.0), Strip(["a"], [1.0], name="lrp[cp=1]", r=math.nan)]
    text = printed(terminal.comparison(rows, colour=False), colour=False)
    assert "r to LOO" in text
    assert "+1.00" in text
    assert "lrp[cp=1]" in text
    assert "undefined" in text
    assert "r to LOO" not in printed(terminal.comparison([Strip(["a"], [1.0], name="loo")], colour=False), colour=False)


@pytest.mark.parametrize("colour", [True, False])
def test_hostile_text_is_shown_not_obeyed(colour: bool) -> None:
    hostile = Strip(
        ["\x1b[2J", "[bold red]x[/]", "\u202e", "\n", "\r"], [1.0, 0.5, -1.0, 0.2, 0.1], name="\x1b]0;t\x07"
    )
    text = printed(terminal.explanation(hostile, colour=colour), colour=colour)
    assert "\x1b[2J" not in text
    assert "[bold red]x[/]" in text
    assert not {"\u202e", "\r"} & set(text)
    assert "\x1b]0;" not in printed(terminal.comparison([hostile], colour=colour), colour=colour)


def test_table_aligns_numbers() -> None:
    text = printed(
        terminal.table(["method", "r"], [["loo", "1.00"], ["cp", "-0.25"]], numeric=frozenset({1})), colour=False
    )
    assert [line.rstrip() for line in text.splitlines()] == ["method      r", "loo      1.00", "cp      -0.25"]


def test_has_colour() -> None:
    assert terminal.has_colour(Console(force_terminal=True, color_system="truecolor", _environ={}))
    assert not terminal.has_colour(Console(file=io.StringIO(), _environ={}))
    assert not terminal.has_colour(Console(force_terminal=True, color_system="truecolor", no_color=True, _environ={}))


def test_legend_is_symmetric() -> None:
    legend = terminal.legend(1.5)
    assert legend.plain == "against −1.50         0         +1.50 for"


def test_the_table_of_a_page_without_bars() -> None:
    columns = [Column("method", tip="why"), Column("r", bars=True), Column("what")]
    rows = [["loo", Cell(1.0, 0.5, 1.5), "x"], ["cp\x1b", Cell(-0.254, text="−0.25"), "y"]]
    text = printed(terminal.data_table(columns, rows), colour=False)
    assert [line.split() for line in text.splitlines()] == [
        ["method", "r", "what"],
        ["loo", "1.00", "x"],
        ["cp␛", "−0.25", "y"],
    ]
    assert text.splitlines()[1].index("1.00") + 4 == text.splitlines()[2].index("−0.25") + 5, "numbers to the right"

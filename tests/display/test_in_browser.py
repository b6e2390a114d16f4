"""The pages in a real Chromium: no console error, values on hover, switches, sorting, themes, print."""

import math
from pathlib import Path

import pytest

from browser import Browser
from looprop.display.colour import DARK, LIGHT, Scale, colour_of, parse
from looprop.display.data import Cell, Column, Strip
from looprop.display.html import card, page, table
from looprop.display.strips import View, comparison_page, explanation_fragment, explanation_page

pytestmark = pytest.mark.browser

TOKENS = Strip(
    ["[CLS]", "un", "##real", "<script>document.title='hacked'</script>", "fun", "sink"],
    [0.25, 1.0, -0.5, -2.0, 1.5, 50.0],
    special=[True, False, False, False, False, False],
    joined=[False, False, True, False, False, False],
    outside_scale=frozenset({5}),
    name="cp-lrp",
    facts=[("model", "tiny")],
)
WORDS = Strip(
    ["[CLS]", "unreal", "<script>document.title='hacked'</script>", "fun", "sink"],
    [0.25, 0.5, -2.0, 1.5, 50.0],
    outside_scale=frozenset({4}),
)


@pytest.fixture
def explanation(tmp_path: Path) -> Path:
    path = tmp_path / "explanation.html"
    path.write_text(
        explanation_page("positive, by cp-lrp", View(TOKENS, WORDS), subtitle="Unreal fun"), encoding="utf-8"
    )
    return path


@pytest.fixture
def comparison(tmp_path: Path) -> Path:
    path = tmp_path / "comparison.html"
    path.write_text(comparison_page("Two methods", [[View(TOKENS, WORDS), View(TOKENS, WORDS)]]), encoding="utf-8")
    return path


def shown(browser: Browser, selector: str) -> list[str]:
    """The texts of all elements that can be seen."""
    script = (
        f"[...document.querySelectorAll('{selector}')].filter(e => e.getClientRects().length).map(e => e.textContent)"
    )
    texts: list[str] = browser.evaluate(script)
    return texts


def test_pages_open_without_a_complaint(browser: Browser, explanation: Path, comparison: Path) -> None:
    for path in (explanation, comparison):
        browser.open(path)
        assert browser.errors == []


def test_the_helper_sees_complaints(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "bad.html"
    path.write_text("<script>console.error('one'); throw new Error('two')</script>", encoding="utf-8")
    browser.open(path)
    assert len(browser.errors) == 2
    path.write_text(page("t", "<img src='http://127.0.0.1:9/x.png'>"), encoding="utf-8")
    browser.open(path)
    assert any("Content Security Policy" in error for error in browser.errors), "the page itself forbids the network"


def test_script_in_a_text_stays_text(browser: Browser, explanation: Path) -> None:
    browser.open(explanation)
    assert browser.evaluate("document.title") == "positive, by cp-lrp · looprop"
    assert "<script>document.title='hacked'</script>" in shown(browser, ".strip .f")


def test_hover_shows_the_value(browser: Browser, explanation: Path) -> None:
    browser.open(explanation)
    tip = "getComputedStyle(document.querySelectorAll('.strip .f')[{}], '::after').content"
    assert browser.evaluate(tip.format(1)) == "none"
    browser.hover(".strip .f", 1)
    assert browser.evaluate(tip.format(1)) == '"+1.00 · position 2 of 6"'
    browser.hover(".strip .f", 3)
    assert browser.evaluate(tip.format(1)) == "none"
    assert browser.evaluate(tip.format(3)).startswith('"−2.00')


def test_word_switch(browser: Browser, explanation: Path) -> None:
    browser.open(explanation)
    assert shown(browser, ".strip .f") == list(TOKENS.features)
    browser.click(".word-switch")
    assert shown(browser, ".strip .f") == list(WORDS.features)
    assert len(shown(browser, "tbody tr")) == len(WORDS.features)
    browser.click(".word-switch")
    assert shown(browser, ".strip .f") == list(TOKENS.features)


def test_selected_text_is_the_text(browser: Browser, explanation: Path) -> None:
    browser.open(explanation)
    browser.evaluate("getSelection().selectAllChildren(document.querySelector('.strip'))")
    assert (
        browser.evaluate("getSelection().toString()")
        == "[CLS] un##real <script>document.title='hacked'</script> fun sink"
    )


def test_sorting_by_any_column(browser: Browser, explanation: Path) -> None:
    browser.open(explanation)
    scores = "[...document.querySelectorAll('.tokens tbody tr')].map(r => Number(r.cells[2].dataset.sort))"
    start = browser.evaluate(scores)
    assert start == sorted(TOKENS.scores, key=abs, reverse=True)
    browser.click(".tokens thead th", 2)
    assert browser.evaluate(scores) == sorted(TOKENS.scores, reverse=True)
    browser.click(".tokens thead th", 2)
    assert browser.evaluate(scores) == sorted(TOKENS.scores)
    browser.click(".tokens thead th", 0)
    browser.click(".tokens thead th", 0)
    assert browser.evaluate(scores) == list(TOKENS.scores)
    assert browser.evaluate(
        "[...document.querySelectorAll('.tokens th[aria-sort]')].map(h => h.getAttribute('aria-sort'))"
    ) == [
        "ascending",
        "none",
        "none",
        "none",
    ]


def test_names_sort_from_a_to_z_and_nan_goes_last(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "table.html"
    rows: list[list[str | Cell]] = [["b", Cell(1.0)], ["c", Cell(math.nan)], ["a", Cell(2.0)]]
    path.write_text(page("t", card(table([Column("name"), Column("x", bars=True)], rows))), encoding="utf-8")
    browser.open(path)
    names = "[...document.querySelectorAll('tbody tr')].map(r => r.cells[0].textContent)"
    browser.click("thead th", 0)
    assert browser.evaluate(names) == ["a", "b", "c"]
    browser.click("thead th", 1)
    assert browser.evaluate(names) == ["a", "b", "c"]
    browser.click("thead th", 1)
    assert browser.evaluate(names) == ["b", "a", "c"]
    assert browser.errors == []


def background(browser: Browser, index: int) -> tuple[int, ...]:
    """Red, green and blue of a feature as the browser paints it, 0 to 255."""
    script = f"""(() => {{
        const canvas = new OffscreenCanvas(1, 1).getContext('2d');
        canvas.fillStyle = getComputedStyle(document.querySelectorAll('.strip .f')[{index}]).backgroundColor;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    }})()"""
    return tuple(browser.evaluate(script))


@pytest.mark.parametrize(("dark", "scale"), [(False, LIGHT), (True, DARK)])
def test_the_browser_mixes_the_same_colours(browser: Browser, explanation: Path, dark: bool, scale: Scale) -> None:
    browser.open(explanation, dark=dark)
    for index, score in enumerate(TOKENS.scores[:5]):
        expected = [round(255 * part) for part in parse(colour_of(score / 2.0, scale))]
        assert background(browser, index) == pytest.approx(expected, abs=2)


def test_theme_button(browser: Browser, explanation: Path) -> None:
    browser.open(explanation, dark=False)
    light = background(browser, 1)
    browser.click("#theme")
    dark = background(browser, 1)
    assert dark != light
    assert "Light" in browser.evaluate("document.getElementById('theme').textContent")
    browser.click("#theme")
    assert background(browser, 1) == light


def test_print_is_light_and_without_buttons(browser: Browser, explanation: Path) -> None:
    browser.open(explanation, dark=False)
    light = background(browser, 1)
    browser.click("#theme")
    browser.media("print")
    try:
        assert background(browser, 1) == light
        assert shown(browser, ".controls") == []
    finally:
        browser.media("")


def test_narrow_window_does_not_scroll_sideways(browser: Browser, explanation: Path, comparison: Path) -> None:
    for path in (explanation, comparison):
        browser.open(path, width=400)
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_notebook_output_works_without_a_script(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    outputs = explanation_fragment("one", View(TOKENS, WORDS)) + explanation_fragment("two", View(TOKENS, WORDS))
    path.write_text(
        f"<!DOCTYPE html><meta charset='utf-8'><body data-jp-theme-light='true'>{outputs}", encoding="utf-8"
    )
    browser.open(path)
    both = len(TOKENS.features) + len(TOKENS.features)
    assert len(shown(browser, ".f")) == both
    browser.click(".word-switch", 1)
    assert shown(browser, ".f") == [*TOKENS.features, *WORDS.features], "each output has its own switch"
    assert browser.errors == []

"""The pages in a real Chromium: no console error, values on hover, switches, sorting, themes, print."""

import math
import re
from pathlib import Path
from typing import Any

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
    return rgb(browser, f"document.querySelectorAll('.strip .f')[{index}]")


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


HOST = """<style>
* { font-size: 40px; color: red; line-height: 3 }
dl { display: grid } dt { float: left; width: 10px } dd { margin-left: 300px; position: absolute }
table, td, th { border: 9px solid lime; padding: 30px; white-space: normal; text-align: center }
.f, h2, p { display: none !important }
</style>"""


def in_a_notebook(tmp_path: Path, outputs: str, *, theme: str = "data-jp-theme-light='true'") -> Path:
    """Outputs in a host whose style would spoil them."""
    path = tmp_path / "notebook.html"
    path.write_text(f"<!DOCTYPE html><meta charset='utf-8'>{HOST}<body {theme}>{outputs}", encoding="utf-8")
    return path


ROOTS = "[...document.querySelectorAll('[data-looprop]')].map(host => host.shadowRoot)"


def inside(browser: Browser, selector: str, of: str) -> list[Any]:
    """A value of every element in the shadow roots of a notebook."""
    script = f"{ROOTS}.flatMap(root => [...root.querySelectorAll('{selector}')]).map(element => {of})"
    found: list[Any] = browser.evaluate(script)
    return found


def test_no_style_of_a_notebook_goes_in(browser: Browser, tmp_path: Path) -> None:
    output = explanation_fragment("one", View(TOKENS, WORDS))
    browser.open(in_a_notebook(tmp_path, output))
    spoiled = inside(
        browser,
        ".f, dt, dd, h2",
        "[getComputedStyle(element).fontSize, getComputedStyle(element).position, "
        "getComputedStyle(element).float, getComputedStyle(element).color]",
    )
    plain = tmp_path / "plain.html"
    plain.write_text(
        f"<!DOCTYPE html><meta charset='utf-8'><body data-jp-theme-light='true'>{output}", encoding="utf-8"
    )
    browser.open(plain)
    expected = inside(
        browser,
        ".f, dt, dd, h2",
        "[getComputedStyle(element).fontSize, getComputedStyle(element).position, "
        "getComputedStyle(element).float, getComputedStyle(element).color]",
    )
    assert spoiled == expected
    assert len(expected) > 5
    # Names and values of facts do not lie on each other.
    boxes = inside(browser, ".facts div > *", "(b => [b.top, b.bottom])(element.getBoundingClientRect())")
    assert all(name[1] <= value[0] + 1 for name, value in zip(boxes[::2], boxes[1::2], strict=True))


def test_no_style_of_an_output_goes_out(browser: Browser, tmp_path: Path) -> None:
    own = "<p id='own' class='looprop strip f p'>own <table class='data'><tr><td>x</td></tr></table></p>"
    script = "JSON.stringify([...document.querySelectorAll('#own, td')].map(e => Object.entries(getComputedStyle(e))))"
    browser.open(in_a_notebook(tmp_path, own))
    before = browser.evaluate(script)
    browser.open(in_a_notebook(tmp_path, own + explanation_fragment("one", View(TOKENS, WORDS))))
    assert browser.evaluate(script) == before


def test_each_output_of_a_notebook_is_shown_once_with_a_switch_of_its_own(browser: Browser, tmp_path: Path) -> None:
    outputs = explanation_fragment("one", View(TOKENS, WORDS)) + explanation_fragment("two", View(TOKENS, WORDS))
    browser.open(in_a_notebook(tmp_path, outputs))
    seen = "element.getClientRects().length ? element.textContent : null"
    assert [text for text in inside(browser, ".f", seen) if text] == [*TOKENS.features, *TOKENS.features]
    browser.evaluate(f"{ROOTS}[1].querySelector('.word-switch').click()")
    assert [text for text in inside(browser, ".f", seen) if text] == [*TOKENS.features, *WORDS.features]
    assert browser.errors == []


@pytest.mark.parametrize(
    ("theme", "scale"),
    [("data-jp-theme-light='false'", DARK), ("class='vscode-dark'", DARK), ("class='vscode-light'", LIGHT)],
)
def test_an_output_takes_the_theme_of_its_notebook(browser: Browser, tmp_path: Path, theme: str, scale: Scale) -> None:
    browser.open(in_a_notebook(tmp_path, explanation_fragment("one", View(TOKENS))))
    browser.open(in_a_notebook(tmp_path, explanation_fragment("one", View(TOKENS)), theme=theme), dark=scale is LIGHT)
    mixed = "[...document.querySelectorAll('[data-looprop]')][0].shadowRoot.querySelectorAll('.f')[3]"
    assert rgb(browser, mixed) == pytest.approx([round(255 * c) for c in parse(colour_of(-1.0, scale))], abs=2)
    browser.evaluate("document.body.dataset.jpThemeLight = 'true'")
    browser.wait(f"getComputedStyle({mixed}.closest('.looprop')).colorScheme === 'light'")


def test_without_scripts_a_notebook_shows_plain_text(browser: Browser, tmp_path: Path) -> None:
    """What JupyterLab leaves of output in a notebook that is not trusted: neither template nor style nor script."""
    output = explanation_fragment("one", View(TOKENS), plain="Explanation of <b>")
    left = re.sub(r"<(template|style|script)>.*?</\1>", "", output, flags=re.S)
    assert left == "<div data-looprop><pre>Explanation of &lt;b&gt;</pre></div>"


def rgb(browser: Browser, element: str) -> tuple[int, ...]:
    """Red, green and blue of an element's background as the browser paints it, 0 to 255."""
    script = f"""(() => {{
        const canvas = new OffscreenCanvas(1, 1).getContext('2d');
        canvas.fillStyle = getComputedStyle({element}).backgroundColor;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    }})()"""
    return tuple(browser.evaluate(script))

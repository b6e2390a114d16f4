"""The page of a prompt and its answer in a real Chromium: a click on a token of the answer recolours the prompt."""

from pathlib import Path

import pytest

from browser import Browser
from display.prompt_examples import SCORES, SENTENCES, example
from looprop.display import prompt_frame, prompt_page
from looprop.display.colour import DARK, LIGHT, Scale, colour_of, parse

pytestmark = pytest.mark.browser
ORDER = sorted(range(7), key=lambda i: -sum(SCORES[i]))


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Browser:
    path = tmp_path / "prompt.html"
    path.write_text(prompt_page("What made it say so?", example(), subtitle="q"), encoding="utf-8")
    browser.open(path)
    return browser


def painted(browser: Browser, feature: int) -> tuple[int, ...]:
    """Red, green and blue of a feature of the prompt, once it has come to rest."""
    script = f"""(async () => {{
        const mark = document.querySelector('.prompt .f[data-feature="{feature}"]');
        await Promise.all(mark.getAnimations().map(animation => animation.finished));
        const canvas = new OffscreenCanvas(1, 1).getContext('2d');
        canvas.fillStyle = getComputedStyle(mark).backgroundColor;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    }})()"""
    return tuple(browser.evaluate(script))


def expected(columns: list[int], scale: Scale = LIGHT) -> list[list[int]]:
    """The colours of all features when these tokens of the answer are chosen."""
    totals = [sum(row[i] for i in columns) for row in SCORES]
    full = max(map(abs, totals))
    return [[round(255 * part) for part in parse(colour_of(total / full, scale))] for total in totals]


def check(browser: Browser, columns: list[int], scale: Scale = LIGHT) -> None:
    for feature, colour in enumerate(expected(columns, scale)):
        assert painted(browser, feature) == pytest.approx(colour, abs=2), (feature, columns)


def listed(browser: Browser) -> list[int]:
    numbers = browser.evaluate(
        "[...document.querySelectorAll('.ranking .source')].map(source => Number(source.dataset.feature))"
    )
    return list(numbers)


def test_a_click_on_an_answer_token_recolours_the_prompt(opened: Browser) -> None:
    check(opened, [0, 1, 2])
    assert listed(opened) == ORDER
    opened.click(".answer .t", 1)
    check(opened, [1])
    assert listed(opened)[:2] == [4, 0]
    assert opened.evaluate("document.querySelector('.likely .probability').textContent") == "78 %"  # e^-0.25
    opened.click(".answer .t", 2)
    check(opened, [2])
    opened.click(".answer .t", 2)
    check(opened, [0, 1, 2])
    opened.click(".answer .t", 0)
    opened.click(".whole")
    check(opened, [0, 1, 2])
    assert opened.errors == []


def test_the_keyboard_does_the_same(opened: Browser) -> None:
    opened.evaluate("document.querySelector('.answer .t').focus()")
    opened.key("ArrowRight")
    opened.key("ArrowRight")
    opened.key("Enter")
    check(opened, [2])
    opened.key("Shift+ArrowLeft")
    check(opened, [1, 2])
    assert opened.evaluate("[...document.querySelectorAll('.answer .t')].map(t => t.getAttribute('aria-pressed'))") == [
        "false",
        "true",
        "true",
    ]
    opened.key("Escape")
    check(opened, [0, 1, 2])
    assert opened.evaluate("document.querySelectorAll('.answer .t[tabindex=\"0\"]').length") == 1


def test_a_part_of_the_prompt_shows_which_words_it_speaks_for(opened: Browser) -> None:
    opened.click(".prompt .f", 2)
    sides = opened.evaluate("[...document.querySelectorAll('.answer .t')].map(t => t.classList.contains('n'))")
    assert sides == [value < 0 for value in SCORES[2]]
    assert opened.evaluate("document.querySelector('.source[aria-pressed=\"true\"] .text').textContent") == SENTENCES[2]
    opened.click(".ranking .source", 0)
    assert opened.evaluate("document.querySelector('.prompt .chosen').dataset.feature") == str(ORDER[0])


def test_nothing_of_the_prompt_runs_and_paragraphs_are_seen(opened: Browser) -> None:
    assert opened.evaluate("document.title") == "What made it say so? · looprop"
    assert opened.evaluate("document.querySelectorAll('img').length") == 0
    tops = [
        opened.evaluate(f"document.querySelectorAll('.prompt .f')[{i}].getBoundingClientRect().top") for i in (1, 2)
    ]
    assert tops[1] - tops[0] > 40, "a blank line lies between two paragraphs"
    quiet = "Number(getComputedStyle(document.querySelector('.template')).fontSize.replace('px', ''))"
    assert opened.evaluate(quiet) < 14


@pytest.mark.parametrize("width", [400, 1280])
def test_no_scrolling_sideways_and_dark_and_print(browser: Browser, tmp_path: Path, width: int) -> None:
    path = tmp_path / "prompt.html"
    path.write_text(prompt_page("t" * 200, example()), encoding="utf-8")
    browser.open(path, dark=True, width=width)
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
    browser.click(".answer .t", 2)
    check(browser, [2], DARK)
    browser.media("print")
    try:
        check(browser, [2], LIGHT)
        assert browser.evaluate("getComputedStyle(document.querySelector('.side')).position") == "static"
    finally:
        browser.media("")


def test_on_paper_every_part_is_listed(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no button to ask for the rest."""
    monkeypatch.setattr("looprop.display.prompts.SHOWN", 3)
    path = tmp_path / "prompt.html"
    path.write_text(prompt_page("What made it say so?", example()), encoding="utf-8")
    browser.open(path)
    seen = "[...document.querySelectorAll('.ranking li')].filter(one => one.getClientRects().length > 0).length"
    assert browser.evaluate(seen) == 3
    browser.media("print")
    assert browser.evaluate(seen) == len(SCORES)


def test_in_a_notebook_no_style_goes_in_or_out(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    host = "<style>* { font-size: 40px !important; color: red !important } button { display: none !important }</style>"
    path.write_text(
        f"<!DOCTYPE html><meta charset='utf-8'>{host}<p id=own>own</p>{prompt_frame('t', example())}", encoding="utf-8"
    )
    browser.open(path)
    assert browser.errors == []
    assert browser.evaluate("getComputedStyle(document.getElementById('own')).fontFamily") == browser.evaluate(
        "getComputedStyle(document.body).fontFamily"
    )
    # The frame is of nobody's origin: nothing of the host can be read from it, nor the other way round.
    assert browser.evaluate("document.querySelector('iframe').contentDocument === null")
    frame = browser.evaluate("document.querySelector('iframe').srcdoc")
    inside = tmp_path / "inside.html"
    inside.write_text(frame, encoding="utf-8")
    browser.open(inside)
    browser.click(".answer .t", 2)
    check(browser, [2])
    assert browser.errors == []


def test_the_frame_of_a_notebook_is_as_high_as_its_content(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    path.write_text(prompt_frame("t", example(), height=20), encoding="utf-8")
    browser.open(path)
    height = browser.wait("(h => h > 239 && h)(document.querySelector('iframe').getBoundingClientRect().height)")
    assert 240 <= height <= 902
    assert browser.errors == []


def test_the_page_in_a_frame_takes_the_theme_it_is_told(browser: Browser, tmp_path: Path) -> None:
    """Not in the sandbox, so that one can look into it."""
    path = tmp_path / "host.html"
    path.write_text(prompt_frame("t", example()).replace(' sandbox="allow-scripts"', ""), encoding="utf-8")
    browser.open(path)
    inner = "document.querySelector('iframe').contentDocument.body.dataset.theme"
    assert not browser.evaluate(inner)
    browser.evaluate("document.body.dataset.jpThemeLight = 'false'")
    browser.wait(f"{inner} === 'dark'")
    browser.evaluate("document.body.dataset.jpThemeLight = 'true'")
    browser.wait(f"{inner} === 'light'")
    assert browser.errors == []

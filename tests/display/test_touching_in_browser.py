"""What pages do under the mouse in a real Chromium: linked features, one scale, heat maps, charts, examples, tables."""

from pathlib import Path

import pytest

from browser import Browser
from display.test_pages import patches
from evaluation.pages import measured
from looprop.auditing.result import Audit
from looprop.display.data import Cell, Column, Strip
from looprop.display.html import card, page, table
from looprop.display.strips import View, comparison_page, explanation_page
from looprop.study.report.grids import Grid, Measured
from looprop.study.report.writing import to_html

pytestmark = pytest.mark.browser
KEPT = Path(__file__).parents[2] / "results" / "audit" / "embedded.json"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "page.html"


def put(browser: Browser, selector: str, value: str, event: str) -> None:
    """Sets a control as a person does."""
    script = f"(s => {{ s.value = '{value}'; s.dispatchEvent(new Event('{event}', {{bubbles: true}})) }})"
    browser.evaluate(f"{script}(document.querySelector('{selector}'))")


def linked(browser: Browser) -> list[str]:
    found: list[str] = browser.evaluate(
        "[...document.querySelectorAll('.linked')].map(e => e.tagName + ' ' + e.dataset.feature).sort()"
    )
    return found


def test_a_row_and_its_token_are_linked(browser: Browser, written: Path) -> None:
    written.write_text(explanation_page("t", View(Strip(["a", "b", "c"], [1.0, 3.0, 2.0]))), encoding="utf-8")
    browser.open(written)
    browser.hover("tbody tr", 0)
    assert linked(browser) == ["SPAN t1", "TR t1"], "the strongest feature is the first row"
    browser.hover(".strip .f", 2)
    assert linked(browser) == ["SPAN t2", "TR t2"]
    browser.hover("h1")
    assert linked(browser) == []
    assert browser.errors == []


def test_features_are_linked_within_one_text_only(browser: Browser, written: Path) -> None:
    one = [View(Strip(["a", "b"], [1.0, 2.0], name="loo")), View(Strip(["a", "b"], [2.0, 1.0], name="x"))]
    written.write_text(comparison_page("t", [one, one]), encoding="utf-8")
    browser.open(written)
    browser.hover(".strip .f", 0)
    assert linked(browser) == ["SPAN t0", "SPAN t0", "TR t0"]


def test_a_row_brings_its_token_into_sight(browser: Browser, written: Path) -> None:
    scores = [float(i) for i in range(400)]
    written.write_text(explanation_page("t", View(Strip([f"word{i}" for i in range(400)], scores))), encoding="utf-8")
    browser.open(written, height=500)
    box = "document.querySelector('.f[data-feature=t399]').getBoundingClientRect()"
    inside = f"(b => b.top >= 0 && b.bottom <= innerHeight)({box})"
    browser.evaluate("document.querySelector('tbody tr').scrollIntoView()")
    assert not browser.evaluate(inside)
    browser.click("tbody tr td:nth-child(2)", 0)
    browser.wait(inside)


def test_one_scale_for_all_methods(browser: Browser, written: Path) -> None:
    strips = [
        Strip(["a"], [4.0], name="loo"),
        Strip(["a"], [1.0], name="looprop"),
        Strip(["a"], [9.0], name="rollout", alike=False),
    ]
    written.write_text(comparison_page("t", [[View(strip) for strip in strips]]), encoding="utf-8")
    browser.open(written)
    colours = "[...document.querySelectorAll('.strip .f')].map(f => getComputedStyle(f).backgroundColor)"
    own = browser.evaluate(colours)
    assert own[0] == own[1] == own[2], "each on its own scale"
    browser.click(".scale-switch")
    shared = browser.evaluate(colours)
    assert shared[0] == own[0]
    assert shared[1] != own[1], "a quarter of the largest"
    assert shared[2] == own[2], "another unit keeps its own"
    notes = "[...document.querySelectorAll('.own-scale, .one-scale > span')].map(n => n.getClientRects().length > 0)"
    assert browser.evaluate(notes) == [False, True]


def test_the_slider_sets_the_strength_of_the_heat_map(browser: Browser, written: Path) -> None:
    written.write_text(explanation_page("t", View(patches([1.0, -0.5]))), encoding="utf-8")
    browser.open(written)
    heat = "[...document.querySelectorAll('.patch')].map(p => Number(getComputedStyle(p, '::before').opacity))"
    assert browser.evaluate(heat) == pytest.approx([0.75, 0.375, 0.0])
    put(browser, ".strength", "20", "input")
    assert browser.evaluate(heat) == pytest.approx([0.2, 0.1, 0.0])
    browser.hover(".patch", 1)
    assert browser.evaluate("document.querySelector('.patch:nth-child(2)').dataset.tip") == "patch 0,1: −0.500"
    assert linked(browser) == ["SPAN t1", "TR t1"]


def test_a_table_that_is_cut_says_so(browser: Browser, written: Path) -> None:
    rows: list[list[str | Cell]] = [["row", *(Cell(float(i)) for i in range(7))]]
    written.write_text(page("t", card(table([Column(f"column {i}") for i in range(8)], rows))), encoding="utf-8")
    browser.open(written, width=400)
    cue = "getComputedStyle(document.querySelector('.scroll'), '::before').content"
    assert "more columns" in browser.wait(f"(c => c !== 'none' && c)({cue})")
    browser.evaluate("(s => { s.scrollLeft = s.scrollWidth })(document.querySelector('.scroll'))")
    browser.wait(f"{cue} === 'none'")
    browser.open(written, width=2000)
    assert browser.evaluate(cue) == "none"


CUT = "[...document.querySelectorAll('.scroll')].filter(s => s.checkVisibility() && s.scrollWidth > s.clientWidth + 1)"


def wide_pages() -> dict[str, str]:
    """Pages with many columns: an evaluation, an audit, a table of a report beside the paper's."""
    header = ["method", "r to LOO", "r to LOO, special tokens too", "LeRF", "MoRF", "delta", "n", "cost"]
    number = Measured(-0.123, -1.23, 1.23, 872, 0.5)
    cells: list[str | Measured] = ["Rollout (with residual)", *[number] * 5, "870 to 872", "151"]
    grid = Grid("t", header, [cells] * 4, compared=frozenset(header[2:6]))
    claims = Grid("c", ["verdict", "claim", "paper", "found here"], [["does not hold", "CP " * 20, "+0.3", "r " * 30]])
    return {"evaluation": measured(), "report": page("t", to_html(grid) + to_html(claims))}


@pytest.mark.parametrize("name", [*wide_pages(), "audit"])
def test_nothing_is_cut_on_a_laptop_and_nothing_without_a_cue_on_a_phone(
    browser: Browser, written: Path, name: str
) -> None:
    if name == "audit":
        Audit.load(KEPT).save(written)
    else:
        written.write_text(wide_pages()[name], encoding="utf-8")
    browser.open(written, width=1280)
    assert browser.evaluate(f"{CUT}.map(s => s.textContent.slice(0, 60))") == []
    browser.open(written, width=400)
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
    browser.wait(f"{CUT}.every(s => s.hasAttribute('data-more'))")
    stacked = "[...document.querySelectorAll('table.stack')].map(t => t.scrollWidth - t.parentElement.clientWidth)"
    assert max(browser.evaluate(stacked), default=0) <= 1
    assert browser.errors == []


def test_the_heat_of_an_audit_is_seen_in_the_dark(browser: Browser, written: Path) -> None:
    """The faintest change stands out from none by more than the eye needs: a tenth of the way from black to white."""
    Audit.load(KEPT).save(written)
    for dark in (False, True):
        browser.open(written, dark=dark)
        bright = browser.evaluate("""(() => {
            const canvas = new OffscreenCanvas(1, 1).getContext('2d');
            const light = cell => {
                canvas.fillStyle = getComputedStyle(cell).backgroundColor;
                canvas.fillRect(0, 0, 1, 1);
                return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
            };
            const cells = [...document.querySelectorAll('td.heat:not(.outside)')];
            return [cells.find(c => c.textContent === '0'), cells.find(c => c.textContent === '0.00075')].map(light);
        })()""")
        assert max(abs(a - b) for a, b in zip(*bright, strict=True)) > 25


def test_examples_are_filtered_and_sorted(browser: Browser, written: Path) -> None:
    written.write_text(measured(), encoding="utf-8")
    browser.open(written)
    shown = "[...document.querySelectorAll('.example')].filter(e => !e.hidden).map(e => e.dataset.place)"
    start = browser.evaluate(shown)
    gaps = browser.evaluate("[...document.querySelectorAll('.example')].map(e => Number(e.dataset.rank))")
    assert gaps == sorted(gaps), "where methods disagree most comes first"
    put(browser, ".order", "place", "change")
    assert browser.evaluate(shown) == sorted(start)
    put(browser, ".search", "GOOD", "input")
    texts = browser.evaluate(
        "[...document.querySelectorAll('.example')].filter(e => !e.hidden).map(e => e.dataset.text)"
    )
    assert texts
    assert all("good" in text for text in texts)
    assert len(texts) < len(start)
    assert browser.evaluate("document.querySelector('.count').textContent") == f"{len(texts)} of {len(start)}"


def test_a_row_picks_its_line_of_the_chart(browser: Browser, written: Path) -> None:
    written.write_text(measured(), encoding="utf-8")
    browser.open(written)
    browser.hover("tr[data-line=cp-lrp]")
    picked = "[...document.querySelectorAll('g.picked')].map(g => g.dataset.line)"
    assert browser.evaluate(picked) == ["cp-lrp", "cp-lrp"], "in both charts"
    browser.hover("h1")
    assert browser.evaluate(picked) == []
    assert browser.errors == []


def test_print_shows_what_the_page_is_about(browser: Browser, written: Path) -> None:
    written.write_text(measured(), encoding="utf-8")
    browser.open(written, width=760)
    browser.media("print")
    try:
        cells = browser.evaluate("[...document.querySelectorAll('thead th')].map(th => getComputedStyle(th).display)")
        assert set(cells) <= {"table-cell", "none"}
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert browser.evaluate("getComputedStyle(document.querySelector('.tools')).display") == "none"
    finally:
        browser.media("")

"""The explorer as a person uses it: a real server, a real Chromium."""

import http.client
import json
import time
from pathlib import Path

import pytest

import looprop
from browser import Browser
from serving.conftest import Served

pytestmark = pytest.mark.browser
TEXT = "This is not a bad film at all."
IDLE = "document.querySelector('.panel').dataset.state === 'idle'"
CHANGE = "document.querySelector('.panel').dataset.change"


def asked(browser: Browser, served: Served, text: str = TEXT, **fields: str) -> None:
    """A question, answered to the end."""
    browser.open(served.address)
    browser.wait("!!document.querySelector('.panel')")
    for name, value in {"text": text, **fields}.items():
        browser.evaluate(
            f"(f => {{ f.elements[{json.dumps(name)}].value = {json.dumps(value)}; "
            "f.elements.model.dispatchEvent(new Event('change')); })(document.querySelector('form'))"
        )
    for name, value in fields.items():  # a change of the model may have set others back
        browser.evaluate(f"document.querySelector('form').elements[{json.dumps(name)}].value = {json.dumps(value)}")
    browser.click(".primary")
    browser.wait("document.querySelectorAll('.text .chip').length > 0")
    browser.wait(IDLE)


def test_a_click_strikes_out_and_shows_the_true_change(browser: Browser, served: Served) -> None:
    asked(browser, served)
    loo = looprop.load().explain(TEXT, "loo")
    place = loo.features.index("bad")
    browser.click(f'.text [data-feature="{place}"]')
    assert -float(browser.wait(CHANGE)) == pytest.approx(loo.scores[place], abs=1e-4)
    pressed = f"document.querySelector('.text [data-feature=\"{place}\"]').getAttribute('aria-pressed')"
    assert browser.evaluate(pressed) == "true"
    rows = browser.evaluate("[...document.querySelectorAll('.methods tbody tr')].map(r => r.dataset.method)")
    assert set(rows) == {"loo", "cp-lrp", "attnlrp", "looprop"}
    truth = browser.evaluate("document.querySelector('tr.reference').children[3].textContent")
    assert float(truth.replace("−", "-")) == pytest.approx(-loo.scores[place], abs=0.01)
    assert "mostly because of" in browser.evaluate("document.querySelector('.headline').textContent")
    assert browser.errors == []


def test_two_struck_out_show_their_interaction(browser: Browser, served: Served) -> None:
    asked(browser, served)
    features = looprop.load().explain(TEXT, "loo").features
    for word in ("not", "bad"):
        browser.click(f'.text [data-feature="{features.index(word)}"]')
    browser.wait("document.querySelector('.outcome').textContent.includes('interaction')")
    assert "sum of single changes" in browser.evaluate("document.querySelector('.outcome').textContent")


def test_a_language_model_answers_again_without_what_is_struck(browser: Browser, served: Served) -> None:
    asked(browser, served, "the film is good", model="tiny", features="word", answer="3")
    browser.click('.text [data-feature="1"]')
    browser.wait("!document.querySelector('.answer').hidden")
    model = served.explorer.benches["tiny"]
    again = model.answer("the film is good", max_new_tokens=3).without(1, features="word").text
    assert again in browser.evaluate("document.querySelector('.answer').textContent")


def test_markup_in_a_text_stays_text(browser: Browser, served: Served) -> None:
    asked(browser, served, "<img src=x onerror=alert(1)> </textarea><script>alert(2)</script> good")
    assert browser.evaluate("document.querySelectorAll('.panel img, .panel script').length") == 0
    assert "<script>" in browser.evaluate("document.querySelector('.text').textContent")
    assert browser.errors == []


def test_a_saved_page_needs_no_server_and_still_strikes_out(browser: Browser, served: Served, tmp_path: Path) -> None:
    asked(browser, served)
    data = browser.evaluate("({about: page.about, panels: page.panels.map(p => p.asData())})")
    status, body = served.request("POST", "/api/page", json.dumps(data).encode())
    assert status == 200
    (tmp_path / "saved.html").write_bytes(body)
    browser.open(tmp_path / "saved.html")
    loo = looprop.load().explain(TEXT, "loo")
    place = loo.features.index("bad")
    browser.click(f'.text [data-feature="{place}"]')
    assert -float(browser.wait(CHANGE)) == pytest.approx(loo.scores[place], abs=1e-4)
    assert browser.errors == []


def test_stop_stops(browser: Browser, served: Served) -> None:
    browser.open(served.address)
    browser.wait("!!document.querySelector('.panel')")
    browser.evaluate(f"document.querySelector('textarea').value = {json.dumps('a very good film . ' * 60)}")
    browser.click(".primary")
    browser.wait("document.querySelector('.progress').textContent.includes('leave-one-out')")
    browser.click(".stop")
    browser.wait(IDLE)
    known = "page.panels[0].scores.get('loo').scores.filter(Number.isFinite).length"
    before = browser.evaluate(known)
    time.sleep(1.0)
    assert browser.evaluate(known) == before < 242
    worker = served.explorer.worker
    assert worker._current is None
    assert not worker._others


def test_two_pages_do_not_disturb_each_other(browser: Browser, served: Served, chromium: str) -> None:
    with Browser(chromium) as other:
        asked(other, served, "A dull and lifeless mess.")
        asked(browser, served)
        for page, text in ((browser, TEXT), (other, "A dull and lifeless mess.")):
            loo = looprop.load().explain(text, "loo")
            page.click('.text [data-feature="2"]')
            assert -float(page.wait(CHANGE)) == pytest.approx(loo.scores[2], abs=1e-4)


def test_a_thousand_requests_in_a_row_leave_memory_flat(served: Served) -> None:
    def resident() -> int:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * 4096

    if not Path("/proc/self/statm").exists():
        pytest.skip("no /proc on this system")
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)

    def ask(number: int) -> None:
        body = json.dumps({"question": {"model": "embedded", "text": f"film {number % 12}"}, "struck": [1]})
        connection.request("POST", "/api/without", body=body, headers=served.headers())
        assert connection.getresponse().read()

    for number in range(200):
        ask(number)
    before = resident()
    for number in range(1000):
        ask(number)
    connection.close()
    assert resident() - before < 64 * 2**20


def test_questions_asked_long_ago_are_forgotten(served: Served) -> None:
    for number in range(20):
        served.post("/api/ask", {"model": "tiny", "text": f"the film {'good ' * number}"})
    assert len(served.explorer._known) <= 16

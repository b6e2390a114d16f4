"""The explorer as a person uses it: a real server, a real Chromium."""

import base64
import io
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import looprop
from browser import Browser
from looprop.serving.asked import TOGETHER, Asked
from serving.conftest import Served, picture_file
from serving.test_stopping import PATIENCE, given_up, until

pytestmark = pytest.mark.browser
TEXT = "This is not a bad film at all."
IDLE = "page.panels.every(p => p.root.dataset.state === 'idle')"
CHANGE = "document.querySelector('.panel').dataset.change"
FOUND = "page.panels[0].data !== null"


def opened(browser: Browser, served: Served) -> None:
    browser.open(served.address)
    browser.wait("page.panels.length > 0")


def fill(browser: Browser, **fields: str) -> None:
    """Fields of the first form, the model first: it decides which of the others there are."""
    for name in sorted(fields, key=lambda name: name != "model"):
        browser.evaluate(
            f"(f => {{ f.elements[{json.dumps(name)}].value = {json.dumps(fields[name])}; "
            f"f.elements[{json.dumps(name)}].dispatchEvent(new Event('change')); }})(document.querySelector('form'))"
        )


def asked(browser: Browser, served: Served, **fields: str) -> None:
    """A question, answered to the end."""
    opened(browser, served)
    fill(browser, **({"text": TEXT} | fields))
    browser.click(".primary")
    browser.wait(FOUND)
    browser.wait(IDLE)
    assert browser.evaluate("document.querySelector('.error').hidden")


def strike(browser: Browser, feature: int) -> float:
    """What the page says changes when a feature is struck out."""
    browser.click(f'.stage [data-feature="{feature}"]')
    return float(browser.wait(CHANGE))


def test_a_click_strikes_out_and_shows_the_true_change(browser: Browser, served: Served) -> None:
    asked(browser, served)
    model = looprop.load()
    loo = model.explain(TEXT, "loo")
    place = loo.features.index("bad")
    assert -strike(browser, place) == pytest.approx(loo.scores[place], abs=1e-4)
    pressed = f"document.querySelector('.text [data-feature=\"{place}\"]').getAttribute('aria-pressed')"
    assert browser.evaluate(pressed) == "true"
    predicted = browser.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.methods tbody tr')]"
        ".map(r => [r.dataset.method, Number(r.querySelector('.predicted').dataset.predicted)]))"
    )
    assert set(predicted) == {"loo", "cp-lrp", "attnlrp", "looprop"}
    for name, value in predicted.items():
        assert -value == pytest.approx(model.explain(TEXT, name).scores[place], abs=1e-4)
    assert "mostly because of" in browser.evaluate("document.querySelector('.headline').textContent")
    assert browser.errors == []


def test_two_struck_out_are_the_set_function_and_show_their_interaction(browser: Browser, served: Served) -> None:
    asked(browser, served)
    model = looprop.load()
    pair = [model.explain(TEXT, "cp-lrp").features.index(word) for word in ("not", "bad")]
    keep = np.ones((2, 11), dtype=bool)
    keep[1, pair] = False
    whole, left = model.set_function(TEXT)(keep)
    strike(browser, pair[0])
    browser.click(f'.stage [data-feature="{pair[1]}"]')
    browser.wait("document.querySelector('.outcome').textContent.includes('interaction')")
    assert -float(browser.wait(CHANGE)) == pytest.approx(whole - left, abs=1e-4)
    assert "sum of the single changes" in browser.evaluate("document.querySelector('.outcome').textContent")


def test_a_language_model_answers_again_without_what_is_struck(browser: Browser, served: Served) -> None:
    asked(browser, served, text="the film is good", model=served.lm, features="word", what="answer", answer="3")
    model = served.explorer.benches[served.lm]
    answer = model.answer("the film is good", max_new_tokens=3)
    loo = model.explain(answer, "loo", features="word")
    assert -strike(browser, 1) == pytest.approx(loo.scores[1], abs=1e-4)
    again = answer.without(1, features="word").text
    assert browser.wait("page.panels[0].anew") == again
    assert again in browser.evaluate("document.querySelector('.outcome .answer').textContent")


def test_a_click_on_a_token_of_the_answer_asks_for_it_alone(browser: Browser, served: Served) -> None:
    asked(browser, served, text="the film is good", model=served.lm, features="word", what="answer", answer="3")
    browser.evaluate("document.querySelectorAll('.said .token')[1].click()")  # a random model may say what has no width
    browser.wait("page.panels[0].data.question.part === '1:2'")
    browser.wait(IDLE)
    model = served.explorer.benches[served.lm]
    loo = model.explain(model.answer("the film is good", max_new_tokens=3)[1:2], "loo", features="word")
    assert -strike(browser, 2) == pytest.approx(loo.scores[2], abs=1e-4)
    browser.click(".whole")
    browser.wait("page.panels[0].data.question.part === ''")


def test_a_patch_of_a_picture_is_struck_out(browser: Browser, served: Served) -> None:
    asked(browser, served, model=served.vit)
    model = looprop.load(served.vit)
    loo = model.explain(Image.open(served.picture).convert("RGB"), "loo")
    assert -strike(browser, 6) == pytest.approx(loo.scores[6], abs=1e-4)
    keep = np.ones((2, 16), dtype=bool)
    keep[1, [6, 9]] = False
    whole, left = model.set_function(Image.open(served.picture).convert("RGB"))(keep)
    browser.click('.stage [data-feature="9"]')
    browser.wait("document.querySelector('.outcome').textContent.includes('interaction')")
    assert -float(browser.wait(CHANGE)) == pytest.approx(whole - left, abs=1e-4)
    assert browser.evaluate("document.querySelectorAll('.methods .thumb canvas').length") == 4
    assert browser.errors == []


def test_a_picture_can_be_given_to_the_page(browser: Browser, served: Served, tmp_path: Path) -> None:
    path = picture_file(tmp_path / "own.png", seed=3)
    opened(browser, served)
    fill(browser, model=served.vit)
    browser.upload("input[type=file]", path)
    browser.wait(FOUND)
    browser.wait(IDLE)
    loo = looprop.load(served.vit).explain(Image.open(path).convert("RGB"), "loo")
    assert -strike(browser, 3) == pytest.approx(loo.scores[3], abs=1e-4)


def test_r_to_either_reference(browser: Browser, served: Served) -> None:
    text = "not a bad film"
    asked(browser, served, text=text)
    browser.click('[data-do="shapley"]')
    browser.wait("page.panels[0].scores.has('shapley') && page.panels[0].scores.get('shapley').scores !== undefined")
    browser.wait(IDLE)
    model = looprop.load()
    found = {name: model.explain(text, name) for name in ("loo", "shapley", "cp-lrp")}
    shown = browser.evaluate(
        "[...document.querySelectorAll('tr[data-method=\"cp-lrp\"] .r')].map(cell => Number(cell.dataset.r))"
    )
    wanted = [found["cp-lrp"].correlation(found[name], special=False) for name in ("loo", "shapley")]
    assert shown == pytest.approx(wanted, abs=1e-3)


def test_scale_special_tokens_and_methods_are_chosen(browser: Browser, served: Served) -> None:
    asked(browser, served)
    strongest = "document.querySelectorAll('tr[data-method=\"attnlrp\"] .map .chip').length"
    assert browser.evaluate(strongest) == 11
    browser.click("#special")
    assert browser.evaluate(strongest) == 9
    full = (
        "Math.max(...[...document.querySelectorAll('tr[data-method=\"NAME\"] .map .chip')]"
        ".map(c => parseFloat(c.style.getPropertyValue('--m'))))"
    )
    names = ("loo", "cp-lrp", "attnlrp", "looprop")
    assert [browser.evaluate(full.replace("NAME", name)) for name in names] == [100.0] * 4
    browser.click("#shared")
    assert sorted(browser.evaluate(full.replace("NAME", name)) < 100 for name in names)[-1]
    browser.evaluate("document.querySelector('.picker').open = true")
    browser.click('[data-pick="grad-x-input"]')
    browser.wait("(page.panels[0].scores.get('grad-x-input') || {}).scores")
    browser.click('[data-pick="grad-x-input"]')
    browser.wait("!page.panels[0].scores.has('grad-x-input')")


def test_a_method_taken_back_stays_away(browser: Browser, served: Served) -> None:
    """Also when its scores are on the way."""
    asked(browser, served)
    browser.evaluate("(p => { p.choosing('ig', true); p.choosing('ig', false); })(page.panels[0])")
    browser.wait(IDLE)
    until(lambda: served.explorer.worker.idle)
    rows = browser.evaluate("[...document.querySelectorAll('.methods tbody tr')].map(row => row.dataset.method)")
    assert rows == ["loo", "cp-lrp", "attnlrp", "looprop"]
    assert browser.errors == []


def test_rows_stand_before_their_scores_come(browser: Browser, served: Served) -> None:
    """What one is about to click on does not move away."""
    asked(browser, served)
    row = "document.querySelector('tr[data-method=\"ig\"] .map')"
    assert browser.evaluate(f"(p => {{ p.choosing('ig', true); return {row}.textContent; }})(page.panels[0])") == "…"
    browser.wait(f"{row}.children.length === 11")


def test_a_click_is_not_lost_when_the_page_is_drawn_meanwhile(browser: Browser, served: Served) -> None:
    asked(browser, served)
    browser.press('.stage [data-feature="3"]')
    browser.evaluate("page.panels[0].later(), new Promise(done => setTimeout(done, 200))")  # longer than it draws later
    browser.release()
    browser.wait("page.panels[0].key === '3'")
    browser.wait(CHANGE)
    browser.press('tr[data-method="attnlrp"] .name button')
    browser.evaluate("drawPanel(page.panels[0])")
    browser.release()
    browser.wait("page.panels[0].shown === 'attnlrp'")
    drawn = "document.querySelector('tr[data-method=\"attnlrp\"]').getAttribute('aria-selected') === 'true'"
    browser.wait(drawn)
    assert browser.evaluate("document.activeElement.closest('tr').dataset.method") == "attnlrp"


def test_two_models_stand_side_by_side(browser: Browser, served: Served) -> None:
    asked(browser, served)
    browser.click("#second")
    browser.wait("page.panels.length === 2 && page.panels[1].data !== null")
    browser.wait(IDLE)
    assert browser.evaluate("page.panels.map(p => p.data.question.model)") == ["embedded", served.lm]
    assert browser.evaluate("page.panels.map(p => p.form.text.value)") == [TEXT, TEXT]
    sides = browser.evaluate("page.panels.map(p => p.root.getBoundingClientRect().top)")
    assert sides[0] == sides[1]
    browser.click(".panel:nth-child(2) .close")
    assert browser.evaluate("document.querySelectorAll('.panel').length") == 1


def test_a_link_asks_again_and_strikes_out(browser: Browser, served: Served) -> None:
    asked(browser, served)
    change = strike(browser, 3)
    browser.click('[data-do="link"]')
    address = browser.evaluate("location.href")
    assert served.token not in address
    browser.open("about:blank")
    browser.open(address)
    browser.wait("page.panels.length > 0")
    assert float(browser.wait(CHANGE)) == pytest.approx(change, abs=1e-5)
    browser.evaluate("page.panels[0].asking({...page.panels[0].data.question, features: 'word'})")
    browser.wait("document.querySelectorAll('#history li').length === 2")
    browser.click("#history button", 1)
    browser.wait("page.panels[0].data.question.features === 'token'")


def test_markup_in_a_text_stays_text(browser: Browser, served: Served) -> None:
    asked(browser, served, text="<img src=x onerror=alert(1)> </textarea><script>alert(2)</script> good")
    assert browser.evaluate("document.querySelectorAll('.panel .text img, .panel script').length") == 0
    assert "<script>" in browser.evaluate("document.querySelector('.text').textContent")
    assert browser.errors == []


def saved(browser: Browser, what: str) -> Any:
    """What a button would save, as base64."""
    browser.evaluate(
        "window.kept = null; window.save = (blob, name) => { const r = new FileReader(); "
        "r.onload = () => { window.kept = [name, r.result.split(',')[1]]; }; r.readAsDataURL(blob); }"
    )
    browser.click(f'[data-do="{what}"]')
    return browser.wait("window.kept")


def test_a_saved_page_needs_no_server_and_still_strikes_out(browser: Browser, served: Served, tmp_path: Path) -> None:
    asked(browser, served)
    pair = [4, 5]
    for feature in pair:
        browser.click(f'.stage [data-feature="{feature}"]')
    together = float(browser.wait(f"page.panels[0].key === '4,5' && {CHANGE}"))
    name, data = saved(browser, "page")
    (tmp_path / name).write_bytes(base64.b64decode(data))
    browser.open(tmp_path / name)
    loo = looprop.load().explain(TEXT, "loo")
    assert float(browser.wait(CHANGE)) == pytest.approx(together)  # as it was left
    browser.click('[data-do="clear"]')
    for place in (loo.features.index("bad"), 1):
        assert -strike(browser, place) == pytest.approx(loo.scores[place], abs=1e-4)
    browser.click('[data-do="python"]')
    assert "looprop.load()" in browser.evaluate("document.querySelector('.python').textContent")
    assert browser.evaluate("document.querySelector('form').hidden")
    assert browser.errors == []


def test_a_saved_page_of_a_picture_strikes_out_too(browser: Browser, served: Served, tmp_path: Path) -> None:
    asked(browser, served, model=served.vit)
    name, data = saved(browser, "page")
    (tmp_path / name).write_bytes(base64.b64decode(data))
    browser.open(tmp_path / name)
    loo = looprop.load(served.vit).explain(Image.open(served.picture).convert("RGB"), "loo")
    assert -strike(browser, 7) == pytest.approx(loo.scores[7], abs=1e-4)
    assert browser.errors == []


@pytest.mark.parametrize("kind", ["text", "picture"])
def test_pictures_and_numbers_are_saved(browser: Browser, served: Served, kind: str) -> None:
    asked(browser, served, **({} if kind == "text" else {"model": served.vit}))
    name, data = saved(browser, "picture")
    image = Image.open(io.BytesIO(base64.b64decode(data)))
    assert (name, image.format, image.width) == ("looprop.png", "PNG", 2400)
    assert len(set(image.convert("RGB").resize((200, 100)).get_flattened_data())) > 10
    name, data = saved(browser, "json")
    numbers = json.loads(base64.b64decode(data))
    item = TEXT if kind == "text" else Image.open(served.picture).convert("RGB")
    loo = looprop.load(None if kind == "text" else served.vit).explain(item, "loo")
    assert numbers["scores"]["loo"]["scores"] == pytest.approx(loo.scores.tolist(), abs=1e-4)


def test_stop_stops_and_go_on_goes_on(browser: Browser, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the click nothing more is computed: of leave-one-out the first few are there, and stay all there is."""
    text, gate, effects = "a very good film . " * 12, threading.Event(), Asked.effects

    def held(asked: Asked, which: list[int], value: Any = None) -> list[float]:
        if which[0] == TOGETHER:  # the second few
            gate.wait(PATIENCE)
        return effects(asked, which, value)

    monkeypatch.setattr(Asked, "effects", held)
    opened(browser, served)
    fill(browser, text=text)
    browser.click(".primary")
    browser.wait("document.querySelector('.progress').textContent.includes('leave-one-out')")
    browser.click(".stop")
    browser.wait(IDLE)
    until(lambda: given_up(served.explorer.worker))
    gate.set()
    until(lambda: served.explorer.worker.idle)
    asked = next(a for q, a in served.explorer._known.items() if q.text == text)
    assert asked.value.count.computed == TOGETHER
    assert browser.evaluate("page.panels[0].scores.get('loo').scores.filter(Number.isFinite).length") == TOGETHER
    browser.click(".resume")
    browser.wait("page.panels[0].scores.get('loo').scores.every(Number.isFinite)")


def test_two_browsers_do_not_disturb_each_other(browser: Browser, served: Served, chromium: str) -> None:
    with Browser(chromium) as other:
        texts = {browser: "a very good film . " * 8, other: "A dull and lifeless mess."}
        for page, text in texts.items():  # both at once: the long one has just begun
            opened(page, served)
            fill(page, text=text)
            page.click(".primary")
        for page, text in reversed(texts.items()):
            page.wait(FOUND)
            loo = looprop.load().explain(text, "loo")
            assert -strike(page, 2) == pytest.approx(loo.scores[2], abs=1e-4)
        for page, text in texts.items():
            page.wait(IDLE)
            known = page.evaluate("page.panels[0].scores.get('loo').scores")
            assert known == pytest.approx(looprop.load().explain(text, "loo").scores.tolist(), abs=1e-4)

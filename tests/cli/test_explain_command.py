"""`looprop explain`: what it shows, writes and hands on."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from browser import Browser
from cli.conftest import Run
from looprop import Explanation, Explanations, load
from looprop.display import visible
from looprop.models.prompts import parse_target

TEXT = "the film is not very good"


def answer(result: Result) -> dict[str, object]:
    """What stands on standard output, as JSON, after a run without error."""
    assert result.exit_code == 0, result.output
    found: dict[str, object] = json.loads(result.stdout)
    return found


def test_the_json_is_what_python_gives(looprop: Run, classifier: str) -> None:
    ours = load(classifier).explain(TEXT, "attnlrp", target="negative")
    said = Explanation.from_dict(
        answer(looprop("explain", TEXT, "--model", classifier, "-m", "attnlrp", "--target", "negative", "--json"))
    )
    assert said.features == ours.features
    assert (said.label, said.target, said.method, said.text) == ("negative", 0, "attnlrp", TEXT)
    np.testing.assert_allclose(said.scores, ours.scores, rtol=1e-5, atol=1e-7)


def test_several_methods_come_with_leave_one_out(looprop: Run, classifier: str) -> None:
    arguments = ("explain", TEXT, "--model", classifier, "-m", "cp-lrp", "-m", "ig[steps=4]", "--json")
    assert [e.method for e in Explanations.from_dict(answer(looprop(*arguments)))] == ["loo", "cp-lrp", "ig[steps=4]"]
    assert [e.method for e in Explanations.from_dict(answer(looprop(*arguments, "--no-loo")))] == [
        "cp-lrp",
        "ig[steps=4]",
    ]
    one = answer(looprop("explain", TEXT, "--model", classifier, "-m", "cp-lrp", "--loo", "--json"))
    assert [e.method for e in Explanations.from_dict(one)] == ["loo", "cp-lrp"]


def test_methods_stand_side_by_side_with_their_r(looprop: Run, classifier: str) -> None:
    shown = looprop("explain", TEXT, "--model", classifier, "-m", "cp-lrp", "-m", "random").stdout
    bench = load(classifier)
    loo = bench.explain(TEXT, "loo")
    for method in ("loo", "cp-lrp", "random"):
        r = bench.explain(TEXT, method).correlation(loo, special=False)
        line = next(line for line in shown.splitlines() if line.startswith(method))
        assert f"{r:+.2f}".replace("-", "−") in line


def test_a_check_says_how_far_to_trust_each_method(looprop: Run, classifier: str) -> None:
    long = f"{TEXT} and the film is not so bad at all"
    arguments = ("explain", long, "--model", classifier, "--check", "8")
    said = Explanation.from_dict(answer(looprop(*arguments, "-m", "attnlrp", "--json")))
    ours = load(classifier).explain(long, "attnlrp", check=8).check
    assert said.check is not None
    assert ours is not None
    assert (said.check.places, said.check.bought, said.check.removal) == (ours.places, 8, "attention-mask")
    one = " ".join(looprop(*arguments, "-m", "attnlrp").stdout.split())
    assert f"r to leave-one-out {ours.verdict}" in one
    assert "8 of them for the check" in one or "9 of them for the check" in one
    assert "true value" in one
    both = " ".join(looprop(*arguments, "-m", "attnlrp", "-m", "random", "--no-loo").stdout.split())
    assert "r to leave-one-out" in both
    wrong = looprop(*arguments[:-1], "3", "-m", "attnlrp")
    assert wrong.exit_code == 1
    assert "check must be an integer >= 4" in wrong.stderr


def test_without_a_method_it_is_looprop(looprop: Run, classifier: str) -> None:
    assert answer(looprop("explain", TEXT, "--model", classifier, "--json"))["method"] == "looprop"
    both = answer(looprop("explain", TEXT, "--model", classifier, "--loo", "--json"))
    assert [e.method for e in Explanations.from_dict(both)] == ["loo", "looprop"]


@pytest.mark.parametrize(
    ("target", "expected"),
    [("2", 2), ("positive", 2), ("POSITIVE", 2), ("positive,negative", [2, 0]), ("2, 0", [2, 0])],
)
def test_targets_of_a_classifier(looprop: Run, classifier: str, target: str, expected: object) -> None:
    assert answer(looprop("explain", TEXT, "--model", classifier, "--target", target, "--json"))["target"] == expected


def test_features(looprop: Run, classifier: str) -> None:
    found = answer(looprop("explain", "unbelievable fun", "--model", classifier, "--features", "word", "--json"))
    assert found["features"] == ["[CLS]", "unbelievable", "fun", "[SEP]"]


def test_standard_input_and_pairs(looprop: Run, classifier: str) -> None:
    found = answer(looprop("explain", "-", "--pair", "very great", "--model", classifier, "--json", stdin=f"{TEXT}\n"))
    assert found["text"] == f"{TEXT}\nvery great"


def test_without_colour_there_are_numbers(looprop: Run, classifier: str) -> None:
    score = load(classifier).explain(TEXT).scores[3]
    shown = looprop("explain", TEXT, "--model", classifier).stdout
    assert "\x1b" not in shown
    assert "is[" in shown
    assert f"{abs(score):.3f}"[:4] in shown


def test_with_colour_there_are_colours(looprop: Run, classifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[" in looprop("explain", TEXT, "--model", classifier).stdout
    assert "\x1b" not in looprop("explain", TEXT, "--model", classifier, "--no-color").stdout


def test_files_are_written_and_named_on_standard_error(looprop: Run, classifier: str, tmp_path: Path) -> None:
    for methods in (["-m", "cp-lrp"], ["-m", "cp-lrp", "-m", "attnlrp"]):
        page, picture = tmp_path / f"{len(methods)}.html", tmp_path / f"{len(methods)}.png"
        result = looprop(
            "explain", TEXT, "--model", classifier, *methods, "--html", str(page), "--png", str(picture), "--json"
        )
        assert answer(result)
        assert f"wrote {page}" in result.stderr
        assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
        assert picture.read_bytes().startswith(b"\x89PNG")
    other = tmp_path / "picture.pdf"
    assert looprop("explain", TEXT, "--model", classifier, "-m", "cp-lrp", "--png", str(other)).exit_code == 0
    assert other.read_bytes().startswith(b"%PDF")
    refused = looprop("explain", TEXT, "--model", classifier, "--png", str(page))
    assert "must end in .png, .svg, .pdf" in refused.stderr


@pytest.mark.browser
def test_the_page_opens_and_text_stays_text(looprop: Run, classifier: str, tmp_path: Path, browser: Browser) -> None:
    page = tmp_path / "page.html"
    text = "<script>x</script> unbelievable"
    assert (
        looprop("explain", text, "--model", classifier, "-m", "cp-lrp", "-m", "loo", "--html", str(page)).exit_code == 0
    )
    browser.open(page)
    assert browser.errors == []
    assert browser.evaluate("document.querySelector('main script')") is None
    assert "<script>x</script>" in browser.evaluate("document.querySelector('.tokens .strip').textContent")
    browser.hover(".tokens .strip .f")
    assert "position 1 of" in browser.evaluate(
        "getComputedStyle(document.querySelector('.tokens .strip .f:hover'), '::after').content"
    )
    browser.click(".word-switch")
    words = browser.evaluate(
        "[...document.querySelectorAll('.words .strip .f')].filter(e => e.getClientRects().length).map(e => "
        "e.textContent)"
    )
    assert "unbelievable" in words


def test_a_language_model_explains_its_next_token(looprop: Run, language_model: str) -> None:
    found = answer(looprop("explain", "the film is", "--model", language_model, "--json"))
    assert found["target"] == load(language_model).explain("the film is").target
    assert found["outside_scale"] == [True] + [False] * (len(found["features"]) - 1)  # type: ignore[arg-type]


def test_a_group_with_the_first_token_in_it_has_its_colour(looprop: Run, language_model: str) -> None:
    """The first token is a sink by itself; what it does beside others is what they do."""
    arguments = ("explain", "the film is not good and it was bad", "--model", language_model, "-m", "loo", "--json")
    assert answer(looprop(*arguments, "--features", "chunk:4"))["outside_scale"] == [False] * 4
    assert answer(looprop(*arguments))["outside_scale"][:2] == [True, False]  # type: ignore[index]


def test_several_methods_say_where_nothing_matters(looprop: Run, tmp_path: Path) -> None:
    """On this sentence no true value reaches 5 % of what all features do, and r is about -0.9."""
    page, note = (
        tmp_path / "page.html",
        "No single feature matters here by itself: r to leave-one-out is made of noise.",
    )
    shown = looprop(
        "explain", "A warm, funny and quietly moving film.", "-m", "loo", "-m", "attnlrp", "--html", str(page)
    )
    assert note in " ".join(shown.stdout.split())
    assert note in page.read_text(encoding="utf-8")
    mattering = looprop("explain", "This is not a bad film at all.", "-m", "loo", "-m", "attnlrp")
    assert "No single feature matters" not in mattering.stdout


def test_a_prompt_goes_into_the_chat_template(looprop: Run, language_model: str) -> None:
    arguments = ("explain", "--prompt", "is it good", "--model", language_model, "--json")
    assert answer(looprop(*arguments))["text"] == "<user>is it good<assistant>"
    assert answer(looprop(*arguments, "--system", "a"))["text"] == "<system>a<user>is it good<assistant>"
    assert answer(looprop(*arguments, "--no-chat"))["text"] == "is it good"


def test_continuations_given_and_generated(looprop: Run, language_model: str) -> None:
    arguments = ("explain", "the film is", "--model", language_model, "--json")
    given = answer(looprop(*arguments, "--continuation", " good"))
    assert given["label"] == " good"
    assert given["output"] == pytest.approx(
        load(language_model).explain("the film is", target="continuation: good").output, abs=1e-5
    )
    assert "".join(given["features"]) == "the film is"  # type: ignore[arg-type]
    generated = looprop(*arguments, "--generate", "3")
    said = load(language_model).generate("the film is", 3)
    assert answer(generated)["label"] == said
    assert f"the model continues: {visible(said)}\n" in generated.stderr


def test_a_model_that_says_nothing_is_asked_for_a_continuation(
    looprop: Run, language_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("looprop.workbench.generated", lambda *arguments: "")
    result = looprop("explain", "the film is", "--model", language_model, "--generate", "3")
    assert result.exit_code == 1
    assert "give one with --continuation" in result.stderr


def test_a_contrast_of_two_tokens(looprop: Run, language_model: str) -> None:
    tokenizer = load(language_model).tokenizer
    good, bad = (tokenizer(word, add_special_tokens=False)["input_ids"] for word in (" good", " bad"))
    assert len(good) == len(bad) == 1
    found = answer(looprop("explain", "the film is", "--model", language_model, "--target", " good, bad", "--json"))
    assert found["target"] == [good[0], bad[0]]
    by_id = answer(
        looprop("explain", "the film is", "--model", language_model, "--target", f"id:{good[0]},id:{bad[0]}", "--json")
    )
    assert by_id["target"] == found["target"]


def test_digits_are_classes_of_classifiers_and_text_of_language_models(classifier: str, language_model: str) -> None:
    classes, tokens = load(classifier).adapter, load(language_model).adapter
    assert parse_target("1", classes) == 1
    assert parse_target("1", tokens) == "1"
    assert parse_target(",", tokens) == ","
    assert parse_target(None, tokens) is None
    assert parse_target("a,b", classes) == ("a", "b")

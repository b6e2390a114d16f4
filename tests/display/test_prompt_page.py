"""The page of a prompt and its answer: nothing of the prompt is lost or becomes code."""

import html
import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from display.prompt_examples import QUESTION, SCORES, example
from display.test_pages import Reader
from looprop.display import PromptView, Said, Section, prompt_frame, prompt_page
from looprop.display.prompts import percent
from looprop.errors import InputError


def prompt_of(source: str) -> str:
    """The HTML of the prompt alone."""
    return source[source.index('<div class="prompt">') : source.index('<div class="legend">')]


def test_every_character_of_the_prompt_is_shown_in_order() -> None:
    view = example()
    shown = Reader(prompt_of(prompt_page("t", view)).removesuffix("</div>") + "</div>").text
    wanted = view.text.replace("\u2028", "⟨U+2028⟩")
    for place, name in ((1, "user"), *((0, document.name) for document in view.documents)):
        parts = shown.split(name)  # the label of a turn stands after the template that names it, too
        shown = name.join(parts[: place + 1]) + name.join(parts[place + 1 :])
    assert "".join(shown.split()) == "".join(wanted.split())
    assert "rock.\n\nKeepers" in re.sub("<[^>]*>", "", prompt_of(prompt_page("t", view))), "paragraphs stay apart"


def test_nothing_of_a_prompt_becomes_markup() -> None:
    for source in (prompt_page("<i>t</i>", example()), prompt_page("t", example(by_token=False))):
        reader = Reader(source)
        assert [attributes for tag, attributes in reader.tags if tag == "script"] == [
            {"type": "application/json", "id": "matrix"},
            {},
        ]
        assert not {"img", "i", "was"} & {tag for tag, _ in reader.tags}
        assert "hacked" in reader.text
        assert "\u2028" not in source


def test_the_numbers_in_the_page_hold_no_text() -> None:
    found = re.search('<script type="application/json" id="matrix">(.*?)</script>', prompt_page("t", example()))
    assert found is not None
    data = json.loads(found[1])
    assert data["scores"] == SCORES
    assert data["logprobs"] == [-0.5, -0.25, -0.125]
    assert not re.search(r'"[^"]*"\s*[,\]]', found[1]), "names of fields are the only texts"


def test_without_a_script_the_whole_answer_is_shown() -> None:
    source = prompt_page("t", example())
    totals = [sum(row) for row in SCORES]
    for number, total in enumerate(totals):
        mark = re.search(rf'<span class="f ([pn])" style="--m:([\d.]+)%" data-feature="{number}">', source)
        assert mark is not None
        assert mark[1] == ("n" if total < 0 else "p")
        assert float(mark[2]) == pytest.approx(100 * abs(total) / 4.75, abs=0.05)
    ranked = [int(i) for i in re.findall(r'class="source" data-feature="(\d)"', source)]
    assert [totals[i] for i in ranked] == sorted(totals, reverse=True)
    # e^-0.875 with the first sentence, e^(-0.875 - 4.75) without it
    assert "42 % → 0.36 %" in source
    assert html.escape(QUESTION) in source


def test_probabilities_are_never_rounded_to_nothing_or_all() -> None:
    assert percent(0.0) == "0 %"
    assert percent(1.0) == "100 %"
    assert percent(0.9995) == "> 99.9 %"
    assert percent(0.9983) == "99.8 %"
    assert percent(1e-30) == "1.0e−28 %"
    assert percent(math.nan) == "–"


def test_scores_that_are_no_effects_have_no_probability_without() -> None:
    view = example()
    other = PromptView(view.text, view.spans, view.names, view.scores, view.answer, effects=False)
    source = prompt_page("t", other)
    assert "→" not in Reader(source).text
    assert "template" not in re.findall('class="([^"]*)"', source), "without turns there is no template to dim"


def test_a_feature_without_a_score_or_a_place_is_no_error() -> None:
    view = PromptView("ab", [(0, 1), None], ["a", "gone"], [[math.nan], [1.0]], [Said("x")])
    source = prompt_page("t", view)
    assert '<span class="f outside" style="" data-feature="0">a</span>' in source
    assert '"scores": [[null], [1.0]]' in source


def test_what_does_not_fit_together_is_refused() -> None:
    with pytest.raises(InputError, match="every feature needs a span, a name and scores: got 1, 2 and 1"):
        PromptView("ab", [(0, 1)], ["a", "b"], [[1.0]], [Said("x")])
    with pytest.raises(InputError, match=r"one score per answer token \(3\) or a single one, got 2"):
        PromptView("ab", [(0, 1)], ["a"], [[1.0, 2.0]], [Said("x")] * 3)


def test_the_frame_of_a_notebook_holds_the_page_and_nothing_else() -> None:
    reader = Reader(prompt_frame('"t"', example()))
    assert [tag for tag, _ in reader.tags] == ["div", "iframe", "script"]
    attributes = reader.tags[1][1]
    assert attributes["sandbox"] == "allow-scripts"
    inside = Reader(attributes["srcdoc"] or "")
    assert "hacked" in inside.text
    assert [tag for tag, _ in inside.tags].count("script") == 2


PLACES = st.integers(min_value=0, max_value=30)


@given(
    text=st.text(max_size=30),
    spans=st.lists(st.tuples(PLACES, PLACES).map(lambda pair: (min(pair), max(pair))), max_size=4),
    turns=st.lists(st.tuples(PLACES, PLACES).map(lambda pair: (min(pair), max(pair))), max_size=2),
    name=st.text(max_size=5),
)
def test_any_text_and_any_spans_make_a_page_that_is_well_formed(
    text: str, spans: list[tuple[int, int]], turns: list[tuple[int, int]], name: str
) -> None:
    view = PromptView(
        text,
        spans,
        [name] * len(spans),
        [[1.0, -1.0]] * len(spans),
        [Said(name), Said(text)],
        turns=[Section(name, *turn) for turn in turns],
        documents=[Section(name, *turn) for turn in turns],
    )
    reader = Reader(prompt_page(name, view, subtitle=text))  # raises where tags do not close in order
    assert [tag for tag, _ in reader.tags].count("script") == 2

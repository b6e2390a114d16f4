"""Texts cut at sentence ends: cases that a reader can judge, and properties that hold for every text."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from looprop.inputs.splitting import lines, matches, paragraphs, sentences

CUT = {
    "plain": ["The film is good.", "It was not bad!", "Was it?"],
    "abbreviations": [
        "Dr. Smith met Mrs. Bean at 5 p.m. in Washington.",
        "He works at Acme Inc. in Boston.",
        "So be it.",
    ],
    "an abbreviation that ends one": ["He lives in the U.S.", "The rest is long.", "We met at 5 p.m.", "John left."],
    "initials": [
        "J. R. R. Tolkien and K. A. Applegate wrote it (c. 1990).",
        "The U.S. Army came.",
        "See e.g. Section 4.2, i.e. the end.",
    ],
    "numbers": ["He paid $3.50 for No. 5.", "Version 2.0.1 is out.", "See Fig. 3.", "In 1990.", "Then 1,000.5 more."],
    "quotes": ['"Is it good?" she asked.', '"Yes!" he said.', "(It was.)", 'He said "Stop."', "Then he left."],
    "marks": ["What?!", "Really...", "“Never!”", "And so on…", "¿Por qué?", "¡Claro!"],
    "a list": ["1. First item.", "2. Second item.", "(3) Third."],
}
WIDE = {
    "chinese": ["今天天气很好。", "我们去公园吧！", "“好的。”他说。", "你说呢？"],
    "japanese": ["これは本です。", "「はい。」と言った。", "本当！？"],
    "hindi": ["यह किताब है।", " वह गया।"],
}


@pytest.mark.parametrize("wanted", CUT.values(), ids=CUT.keys())
def test_sentences_are_cut_at_their_ends(wanted: list[str]) -> None:
    text = " ".join(wanted)
    assert [text[a:b] for a, b in sentences(text)] == wanted


@pytest.mark.parametrize("wanted", WIDE.values(), ids=WIDE.keys())
def test_scripts_without_spaces(wanted: list[str]) -> None:
    text = "".join(wanted)
    assert [text[a:b] for a, b in sentences(text)] == [sentence.strip() for sentence in wanted]


def test_line_breaks_end_sentences_unless_the_text_is_wrapped() -> None:
    text = "A heading\nQuestion: who?\n- one thing\n- another\n\nit goes\non here"
    assert [text[a:b] for a, b in sentences(text)] == [
        "A heading",
        "Question: who?",
        "- one thing",
        "- another",
        "it goes\non here",
    ]
    wrapped = (
        "It was a long day for everyone who had come to see\nLondon in the rain, and the trains of the Great\n"
        "Western Railway were late. Nobody\n"
    )
    assert [wrapped[a:b].split()[0] for a, b in sentences(wrapped)] == ["It", "Nobody"]


def test_paragraphs_lines_and_matches() -> None:
    text = "one\ntwo \n \n three\n"
    assert [text[a:b] for a, b in paragraphs(text)] == ["one\ntwo", "three"]
    assert [text[a:b] for a, b in lines(text)] == ["one", "two", "three"]
    assert [text[a:b] for a, b in matches(text, re.compile(r"t\w*"), (4, len(text)))] == ["two", "three"]
    assert matches(text, re.compile("x*")) == []


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="aB3 .!?\"'()\n。」\t-", max_size=60))
def test_nothing_visible_is_lost_and_spans_are_in_order(text: str) -> None:
    for split in (sentences, paragraphs, lines):
        spans = split(text)
        assert all(a < b for a, b in spans)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
        assert "".join("".join(text[a:b].split()) for a, b in spans) == "".join(text.split())
        assert all(text[a:b] == text[a:b].strip() for a, b in spans)

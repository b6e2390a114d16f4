"""The demo set: what it promises to hold."""

import unicodedata

from looprop.inputs import demo_sentences


def test_twenty_four_different_short_sentences() -> None:
    data = demo_sentences()
    assert len(data) == len(set(data.texts)) == len({example.id for example in data}) == 24
    assert all(len(text.split()) <= 15 and text == text.strip() for text in data.texts)
    assert not data.subset


def test_every_kind_of_difficulty_is_there() -> None:
    kinds = {example.id.rpartition("-")[0] for example in demo_sentences()}
    assert {"negation", "contrast", "irony", "names", "emoji", "script"} <= kinds


def test_emoji_and_other_scripts_are_what_they_say() -> None:
    for example in demo_sentences():
        names = {unicodedata.name(c, "?").split()[0] for c in example.text if c.isalpha()}
        assert (names != {"LATIN"}) == example.id.startswith("script")
        assert any(unicodedata.category(c) == "So" for c in example.text) == example.id.startswith("emoji")

"""Texts of limited length."""

from pathlib import Path

import pytest

from looprop.errors import DataError
from looprop.study.kinds.texts import choose_source
from looprop.study.spec import parse_spec

HEAD = "name: mine\nkind: texts\nquestion: which?\nmethods: [random]\nmetrics: [naopc]\n"


def test_longer_texts_have_no_part_and_the_title_says_so(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("one\none two\none two three\none two three four\n")
    spec = parse_spec(HEAD + f"data: {{{path}: {{most_words: 2}}}}\n", where="x")
    data = choose_source(spec, None).load(limit=None, seed=0)
    assert data.texts == ["one", "one two"]
    assert "of at most 2 words" in data.title
    drawn = choose_source(spec, None).load(limit=1, seed=0)
    assert len(drawn) == 1
    assert (drawn.subset, drawn.total) == (True, 2)


def test_what_is_not_said_is_not_in_the_manifest() -> None:
    plain = parse_spec(HEAD + "data: {sst2: {split: dev}}\n", where="x").to_dict()
    assert "most_words" not in plain["data"]["sst2"]
    with pytest.raises(DataError, match="most_words must be"):
        parse_spec(HEAD + "data: {sst2: {most_words: 0}}\n", where="x")

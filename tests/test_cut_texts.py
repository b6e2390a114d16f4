"""Texts that are longer than their model takes: whatever is made of them says how many of how many tokens were read."""

from html import unescape
from pathlib import Path
from typing import Any

import pytest

import looprop
from looprop.evaluation import Evaluation
from looprop.result import Explanation, Explanations
from tiny import tiny_classifier, tiny_decoder, wordpiece
from tiny_heads import bench as bench_of

LONG, SHORT = "the film is not good " * 20, "the film is good"
TAKES = 32
"""Tokens that the tiny classifier takes."""


@pytest.fixture(scope="module")
def bench() -> looprop.Workbench:
    return looprop.load(tiny_classifier())


def tokens_of(text: str) -> int:
    return len(wordpiece()(text)["input_ids"])


def test_an_encoded_text_knows_what_was_cut(bench: looprop.Workbench) -> None:
    encode = bench.adapter.encode
    assert encode(LONG, truncation=True).cut == (TAKES, tokens_of(LONG)) == (32, 102)
    assert encode((SHORT, LONG), truncation=True).cut == (TAKES, len(wordpiece()(SHORT, LONG)["input_ids"]))
    assert encode(SHORT, truncation=True).cut is None
    fits = " ".join(["good"] * (TAKES - 2))  # and [CLS] and [SEP]: not one token too many
    assert len(encode(fits, truncation=True)) == TAKES
    assert encode(fits, truncation=True).cut is None


def test_kinds_of_models_that_wrap_the_encoding_keep_it() -> None:
    decoder = looprop.load(tiny_decoder())
    assert decoder.explain(LONG, "loo", truncation=True).details["truncated"]["kept"] == 64
    for name in ("bert-ner", "bert-qa"):
        text: Any = ("what", LONG) if name == "bert-qa" else LONG
        assert bench_of(name).adapter.encode(text, truncation=True).cut[0] == 96  # type: ignore[index]


def test_an_explanation_says_so(bench: looprop.Workbench, tmp_path: Path) -> None:
    e = bench.explain(LONG, "loo", truncation=True)
    assert e.details["truncated"] == {"kept": 32, "of": 102}
    assert ("tokens read", "32 of 102") in e.strip().facts
    assert "32 of 102" in e.save(tmp_path / "page.html").read_text(encoding="utf-8")
    assert ("tokens read", "32 of 102") in Explanation.load(e.save(tmp_path / "e.json")).strip().facts
    whole = bench.explain(SHORT, "loo", truncation=True)
    assert "truncated" not in whole.details
    assert "tokens read" not in dict(whole.strip().facts)


def test_so_does_a_comparison_once(bench: looprop.Workbench, tmp_path: Path) -> None:
    both = Explanations(bench.explain(LONG, method, truncation=True) for method in ("loo", "cp-lrp"))
    assert both.notes() == ["The text was cut to what the model takes: 32 of 102 tokens are read."]
    assert both.notes()[0] in unescape(both.save(tmp_path / "page.html").read_text(encoding="utf-8"))


def test_pairs_say_so(bench: looprop.Workbench) -> None:
    assert "of a text that was cut to 32 of 102 tokens" in bench.interactions(LONG, most=3, truncation=True).note
    assert "cut" not in bench.interactions(SHORT).note


def test_an_evaluation_says_so_also_when_it_was_saved(bench: looprop.Workbench, tmp_path: Path) -> None:
    found = looprop.evaluate(bench, [LONG, SHORT, LONG + LONG], ["loo"], ["loo-r"])
    said = "2 of 3 texts were cut to what the model takes: 64 of their 304 tokens are read."
    again = Evaluation.load(found.save(tmp_path / "run"))
    for one in (found, again):
        assert one.notes[0] == said
        assert one.to_dict()["truncated"] == {"texts": 2, "of": 3, "kept": 64, "tokens": 304}
        assert said in unescape(one._repr_html_())
    whole = looprop.evaluate(bench, [SHORT], ["loo"], ["loo-r"])
    assert "truncated" not in whole.to_dict()
    assert not any("cut" in note for note in whole.notes)


def test_an_audit_says_so(bench: looprop.Workbench) -> None:
    audit = looprop.audit(bench, [LONG, SHORT], ["loo"], ["norm-split"], checks=False)
    said = "1 of 2 texts was cut to what the model takes: 32 of its 102 tokens are read."
    assert audit.about["truncated"] == said
    assert said in unescape(audit._repr_html_())
    assert "truncated" not in looprop.audit(bench, [SHORT], ["loo"], ["norm-split"], checks=False).about

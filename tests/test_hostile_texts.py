"""Texts that are out to break something: the quick part of `attack_texts.py`, and single characters one by one."""

from pathlib import Path
from typing import Any

import pytest

import attack_texts
import looprop
import tiny
from looprop.display import Strip, escape, visible
from looprop.display.figures import strip_figure, to_bytes
from looprop.errors import InputError

LONE = "good \ud800 film"
# Every block of Unicode, the ends of every plane, and all that XML 1.0 forbids (https://www.w3.org/TR/xml/#charsets).
CHARACTERS = [
    *map(chr, range(0x400)),
    *map(chr, range(0x2000, 0x2070)),
    *map(chr, range(0x400, 0x110000, 997)),
    *(chr(plane * 0x10000 + low) for plane in range(17) for low in (0, 0xFFFD, 0xFFFE, 0xFFFF)),
    *map(chr, range(0xFDD0, 0xFDF0)),
    *map(chr, range(0xD7FE, 0xE002, 31)),
]


def test_texts_drawn_by_a_seed() -> None:
    assert attack_texts.texts_campaign(300, seed=16) == []


def test_the_campaign_finds_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A display that shows characters as they are is found out."""
    monkeypatch.setattr("looprop.display.figures.visible", lambda text: text)
    assert attack_texts.texts_campaign(50, seed=16)


@pytest.mark.parametrize("start", range(0, len(CHARACTERS), 800))
def test_every_character_is_well_formed_in_svg(start: int) -> None:
    features = [f"a{character}b" for character in CHARACTERS[start : start + 800]]
    scores = [0.5] * len(features)
    for title in ("".join(features[:100]), ""):
        texts = attack_texts.texts_of_svg(to_bytes(strip_figure(Strip(features, scores), title=title), "svg"))
        assert set(map(visible, features)) <= set(texts)


def test_nothing_that_xml_forbids_is_left_visible() -> None:
    for code in range(0x110000):
        shown = visible(chr(code))
        for character in shown:
            number = ord(character)
            assert 0x20 <= number <= 0xD7FF or 0xE000 <= number <= 0xFFFD or number >= 0x10000, hex(code)
    escape("".join(CHARACTERS)).encode("utf-8")


@pytest.mark.parametrize("kind", sorted(tiny.KINDS))
@pytest.mark.parametrize("item", [LONE, ("good", LONE), ("\udfff", "good")], ids=["text", "second", "first"])
def test_a_lone_surrogate_is_refused_by_every_kind_of_tokenizer(kind: str, item: Any) -> None:
    bench = looprop.load(tiny.tiny_classifier(tiny.KINDS[kind]()))
    with pytest.raises(InputError, match=r"the text must be Unicode, got a lone surrogate U\+D.* at place \d+: decode"):
        bench.explain(item)


def test_a_lone_surrogate_in_what_a_language_model_is_asked() -> None:
    bench = looprop.load(tiny.tiny_decoder())
    for target in (LONE, (LONE, "good"), f"continuation:{LONE}"):
        with pytest.raises(InputError, match="lone surrogate"):
            bench.explain("the film", target=target)
    for call in (lambda: bench.chat(LONE), lambda: bench.generate(LONE), lambda: bench.chat("good", LONE)):
        with pytest.raises(InputError, match="lone surrogate"):
            call()
    with pytest.raises(InputError, match="a prompt must be a text, got int"):
        bench.chat(3)  # type: ignore[arg-type]


def test_a_lone_surrogate_in_a_label_is_shown(tmp_path: Path) -> None:
    """What others put into a configuration is shown on every surface."""
    labels = {0: LONE, 1: "\ufffe<b>", 2: "\x00"}
    model, tokenizer = tiny.tiny_classifier(id2label=labels, label2id={v: k for k, v in labels.items()})
    bench = looprop.load((model, tokenizer))
    for number, label in labels.items():
        found = bench.explain("the film", target=number)
        assert found.label == label
        for ending in ("json", "html", "svg", "png"):
            found.save(tmp_path / f"a.{ending}")
        attack_texts.texts_of_svg((tmp_path / "a.svg").read_bytes())
        assert type(found).load(tmp_path / "a.json").label == label

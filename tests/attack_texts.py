"""Hostile texts: drawn by a seed, encoded, explained and shown everywhere. Right, or refused in words.

A campaign of any length: `python -m tests.attack_texts COUNT SEED`.
"""

import json
import random
import sys
import tempfile
import unicodedata
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import looprop
import tiny
from looprop.display import terminal, visible
from looprop.display.figures import bars, comparison_figure, strip_figure, to_bytes
from looprop.errors import LoopropError
from looprop.inputs import read_texts
from looprop.result import Explanation

WORDS = "the film is not good bad very great a it this movie was unbelievable fun and isn't".split()
MARKUP = (
    "<script>alert(1)</script> ]]> <![CDATA[ <!-- --> &amp; &#0; &lt &nbsp; ' \" < > & </text></svg> {{ x }} {% raw %} "
    r"$x^2$ \frac{ \n %s {} [bold] [/] [[red] javascript:alert(1) ../../etc/passwd \\server\x $(id) `id` ; -- =1+1"
).split(" ")
SPECIAL = "[PAD] [UNK] [CLS] [SEP] [MASK] <|end|> <s> </s> ##able ▁the Ġgood <0x41>".split()
RANGES = {
    "control": (0x00, 0x1F),
    "control of the upper half": (0x7F, 0x9F),
    "Latin": (0xA0, 0x24F),
    "marks": (0x300, 0x36F),
    "Hebrew and Arabic": (0x590, 0x6FF),
    "Indic": (0x900, 0x97F),
    "spaces and directions": (0x2000, 0x206F),
    "symbols": (0x2190, 0x2BFF),
    "ideographs": (0x4E00, 0x9FFF),
    "Hangul": (0xAC00, 0xD7A3),
    "surrogates": (0xD800, 0xDFFF),
    "private": (0xE000, 0xF8FF),
    "compatibility": (0xF900, 0xFDEF),
    "no characters": (0xFFF0, 0xFFFF),
    "emoji": (0x1F300, 0x1FAFF),
    "tags": (0xE0000, 0xE007F),
    "the end": (0x10FFF0, 0x10FFFF),
    "anything": (0x00, 0x10FFFF),
}


def hostile_text(draw: random.Random) -> str:
    """One text: words, markup and characters of odd places, in any mixture."""
    parts = []
    for _ in range(draw.choice([1, 1, 2, 3, 5, 8, 13])):
        kind = draw.randrange(6)
        if kind <= 1:
            parts.append(draw.choice(WORDS))
        elif kind == 2:
            parts.append(draw.choice(MARKUP))
        elif kind == 3:
            parts.append(draw.choice(SPECIAL))
        else:
            low, high = RANGES[draw.choice(list(RANGES))]
            parts.append("".join(chr(draw.randint(low, high)) for _ in range(draw.choice([1, 1, 2, 6]))))
    return draw.choice(["", " ", " ", "\n", "\u200d"]).join(parts)


def is_unicode(text: str) -> bool:
    """Whether the text has no lone surrogate, character by character."""
    return not any(unicodedata.category(c) == "Cs" for c in text)


def paired(text: str) -> str:
    """Two halves of a pair that meet are one character in JSON, which has no other way to write it."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


class _Reader(HTMLParser):
    """The elements of a page with the names of their attributes, in order; long names have classes of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, ...]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, *(name for name, _ in attrs if name != "class")))


def _tags(page: str) -> list[tuple[str, ...]]:
    reader = _Reader()
    reader.feed(page)
    return reader.tags


def texts_of_svg(content: bytes) -> list[str]:
    """All texts of a picture, by an XML parser that refuses whatever is not well formed."""
    root = ElementTree.fromstring(content)
    return ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]


def check_shown(features: list[str], folder: Path) -> None:
    """Features on a page, in a terminal, as JSON and in a picture: every one as `visible` has it."""
    scores = np.linspace(-1.0, 1.0, len(features))
    found = Explanation(features, scores, "loo", 0.5, 1, features[0], text="".join(features), model=features[-1])
    wanted = [visible(feature) for feature in features]
    path = found.save(folder / "a.json")
    again = Explanation.load(path)
    assert again.features == list(map(paired, features))
    assert again.text == paired(found.text)
    found.save(folder / "a.html")
    harmless = replace(found, features=["a"] * len(features), label="a", text="a", model="a")
    assert _tags((folder / "a.html").read_text(encoding="utf-8")) == _tags(harmless.save(folder / "b.html").read_text())
    assert _tags(found._repr_html_()) == _tags(harmless._repr_html_())
    strip = found.strip()
    file = StringIO()
    console = Console(file=file, width=100, color_system=None)
    console.print(terminal.explanation(strip, colour=False, limit=len(features)))
    shown = file.getvalue()
    shown.encode("utf-8")
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in shown.replace("\n", "")), shown
    for figure in (strip_figure(strip, title=found.label), comparison_figure([strip, strip], title=found.label)):
        texts = texts_of_svg(to_bytes(figure, "svg"))
        assert not [text for text in wanted if text.strip() and text not in texts]
    texts_of_svg(to_bytes(bars(strip).figure, "svg"))  # type: ignore[arg-type]


def check_explained(bench: looprop.Workbench, text: str) -> None:
    """The explanation of a text is of this text, or it is refused for a reason that can be checked here."""
    try:
        found = bench.explain(text, "cp-lrp", truncation=True)
    except LoopropError as refusal:
        said = str(refusal)
        said.encode("utf-8")
        refused = ("lone surrogate" in said, "is empty" in said, "makes no token" in said)
        assert refused == (not is_unicode(text), is_unicode(text) and not text.strip(), refused[2]), said
        return
    assert is_unicode(text)
    assert found.text == text
    assert np.isfinite(found.scores).all()
    for feature, span in zip(found.features, found.offsets, strict=True):
        assert span is None or text[slice(*span)] == feature


def check_read(texts: list[str], folder: Path) -> None:
    """The texts through a file of JSON lines: all of them, in order, or one error with its row."""
    path = folder / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    empty = [i for i, text in enumerate(texts, 1) if not text.strip()]
    if empty:
        with pytest.raises(LoopropError, match=f"row {empty[0]}:"):
            read_texts(path, limit=7, seed=1)
        return
    found = read_texts(path, limit=7, seed=1)
    assert found.texts == [paired(texts[int(example.id) - 1]) for example in found]


def benches() -> list[looprop.Workbench]:
    """A classifier and a language model, each with a tokenizer of its own kind."""
    return [looprop.load(tiny.tiny_classifier()), looprop.load(tiny.tiny_decoder())]


def _cases(count: int, seed: int) -> Iterator[tuple[str, Any]]:
    """(what this case is, the function that checks it)."""
    models = benches()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for start in range(0, count, 50):
            batch = [hostile_text(random.Random(f"{seed}:{i}")) for i in range(start, min(count, start + 50))]
            for i, text in enumerate(batch, start):
                bench = models[i % len(models)]
                yield f"text {i} of seed {seed}, {text!r}", lambda bench=bench, text=text: check_explained(bench, text)
            yield f"showing texts {start} on of seed {seed}", lambda batch=batch: check_shown(batch, folder)
            yield f"reading texts {start} on of seed {seed}", lambda batch=batch: check_read(batch, folder)


def texts_campaign(count: int, seed: int) -> list[str]:
    """What went wrong with `count` texts: one line each, nothing if all is well."""
    wrong = []
    for what, check in _cases(count, seed):
        try:
            check()
        except Exception as error:
            wrong.append(f"{what}: {type(error).__name__}: {str(error)[:300]}")
    return wrong


if __name__ == "__main__":
    found = texts_campaign(int(sys.argv[1]), int(sys.argv[2]))
    print("\n".join(found) or "all is well")
    sys.exit(bool(found))

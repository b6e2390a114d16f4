"""Hostile texts on their whole way: explained, shown, written, read again and evaluated."""

import io
import json
import tempfile
import unicodedata
import xml.etree.ElementTree as ET
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from tests import tiny

import looprop
from attacks.verdict import Outcome, WrongError
from looprop.display import terminal
from looprop.errors import LoopropError
from looprop.files import to_json

# A tag of this name in a page came out of a text.
MARK = "xmark"
PIECES: dict[str, list[str]] = {
    "words": ["the film is not good", "a very bad movie", "unbelievable", "Great", "isn't", "THE", "it"],
    "markup": [
        f"<{MARK}>", f"</script><{MARK}>", f'"><{MARK} on{MARK}=1>', f"'><{MARK}/>", f"<!--<{MARK}>", f"]]><{MARK}/>",
        f"&lt;{MARK}&gt;", "&#0;", "{{7*7}}", "{% raw %}",
        "[bold]x[/bold]", "[/]", "[link=x]", "$\\frac{1}{2}$", "$", "$$x_",
        "\\u0000", "%s%n", "<?xml?>", f"<![CDATA[<{MARK}>", "</style>", "`x`", "|a|b|", "\\",
    ],
    "surrogates": ["\ud800", "\udfff", "a\udc80b", "\udc00\ud800"],
    "controls": [
        "\x00", "\x01", "\x07", "\x08", "\x0b", "\x0c", "\x1b[31m", "\x1b]0;x\x07", "\x7f", "\x85", "\x9b2J", "\r",
        "\r\n", "\n", "\t",
    ],
    "directions": ["\u202e", "\u202a", "\u2066abc", "\u2069", "\u200f", "\u061c", "שלום", "مرحبا", "\u202dabc\u202c"],
    "invisible": ["\u200b", "\u200d", "\ufeff", "\u00ad", "\u2060", "\U000e0041", "\ufe0f", "\u3164", "\u2800"],
    "combining": ["e\u0301", "a" + "\u0300" * 40, "\u0301", "Z\u0351\u036b\u0343", "ಠ_ಠ", "กำ", "\u1100\u1161\u11a8"],
    "emoji": ["👍🏽", "👩‍👩‍👧‍👦", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🇩🇪🇩", "❤️", "1️⃣", "😀" * 5],
    "folding": ["ﬁ", "İ", "ß", "ſ", "K", "ǅ", "①", "½", "㎏", "Ω", "ﷺ", "ŉ"],
    "spaces": [" ", "  ", "\u00a0", "\u2003", "\u3000", "\u2028", "\u2029", "\u1680"],
    "special tokens": [
        "[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]", "<s>", "</s>", "<pad>", "<unk>", "<|end|>", "<0x0A>", "▁",
        "##able", "Ġ", "Ċ",
    ],
    "long": ["x" * 300, "ab" * 500, "the " * 60, "😀" * 100, "." * 200],
    "other": [
        "\ufffd", "\uffff", "\U0010ffff", "\ue000", "漢字", "日本語", "∑", "‽", "NaN", "None", "-0", "1e999", "../../x",
    ],
}  # fmt: skip
METHODS = ("loo", "cp-lrp", "attnlrp", "looprop", "grad-x-input", "random", "rollout")


@cache
def bench(kind: str) -> Any:
    """A tiny model with a tokenizer of this kind."""
    made = tiny.KINDS[kind.removesuffix(" decoder")]()
    if kind.endswith(" decoder"):
        return looprop.load(tiny.tiny_decoder(made, n_positions=128))
    return looprop.load(tiny.tiny_classifier(made, max_position_embeddings=128))


KINDS = (*tiny.KINDS, "byte-level decoder")


def prepare() -> None:
    """Loads the models."""
    for kind in KINDS:
        bench(kind).explain("the film is good", "cp-lrp")


def hostile(dice: np.random.Generator) -> str:
    """A text of random pieces, sometimes of one kind only, sometimes of random characters."""
    if dice.random() < 0.1:
        return "".join(chr(int(c)) for c in dice.integers(0, 0x3000 if dice.random() < 0.5 else 0x250, 12))
    kinds = [k for k in PIECES if k != "surrogates"] if dice.random() < 0.6 else [str(dice.choice(list(PIECES)))]
    pieces = []
    for _ in range(int(dice.integers(1, 9))):
        kind = PIECES[kinds[int(dice.integers(len(kinds)))]]
        pieces.append(kind[int(dice.integers(len(kind)))])
    return ("" if dice.random() < 0.5 else " ").join(pieces)


class _Tags(HTMLParser):
    """Notes what a page is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.update([tag, *(name for name, _ in attrs)])


def check_page(page: str) -> None:
    """A page parses, and nothing in it came out of the text as markup."""
    parser = _Tags()
    parser.feed(page)
    parser.close()
    if found := [name for name in parser.names if MARK in name]:
        raise WrongError(f"a page holds markup of the text: {found}")
    if loose := {c for c in page if unicodedata.category(c) == "Cc" and c not in "\t\n\r"}:
        raise WrongError(f"a page holds control characters: {sorted(map(repr, loose))}")


def check_explanation(e: Any) -> None:
    """Lengths and spans are what they say."""
    lengths = {len(e.features), len(e.scores), len(e.offsets), len(e.special), len(e.word_ids), len(e.outside_scale)}
    if len(lengths) != 1 or not np.isfinite(e.scores).all():
        raise WrongError(f"an explanation with {lengths} entries, or with numbers that are none")
    for span in e.offsets:
        if span is not None and not 0 <= span[0] <= span[1] <= len(e.text):
            raise WrongError(f"a span {span} outside a text of {len(e.text)} characters")
    words = e.words()
    if not np.isclose(words.scores.sum(), e.scores.sum()):
        raise WrongError("words have other scores than their pieces")


def check_writing(e: Any, folder: Path, *, pictures: bool) -> None:
    """JSON comes back as it was; pages, pictures and the terminal's lines are well formed."""
    found = json.loads(to_json(e.to_dict()))
    again = looprop.Explanation.from_dict(found)
    if again.features != e.features or again.text != e.text or not np.array_equal(again.scores, e.scores):
        raise WrongError("an explanation that was written as JSON comes back as another one")
    e.save(folder / "e.json")
    looprop.Explanation.load(folder / "e.json")
    check_page(e.save(folder / "e.html").read_text(encoding="utf-8"))
    check_page(e._repr_html_())
    for colour in (True, False):
        stream = io.StringIO()
        console = Console(file=stream, width=80, force_terminal=colour, color_system="truecolor" if colour else None)
        console.print(terminal.explanation(e.strip(), colour=colour))
        shown = stream.getvalue()
        shown.encode("utf-8", "strict")
        if not colour and (loose := {c for c in shown if unicodedata.category(c) in ("Cc", "Cs") and c != "\n"}):
            raise WrongError(f"the terminal gets control characters: {sorted(map(repr, loose))}")
    repr(e)
    if pictures:
        ET.fromstring(e.save(folder / "e.svg").read_bytes())
        e.save(folder / "e.png")


def check_evaluation(m: Any, text: str, folder: Path) -> None:
    """A bad text beside a good one is a row with its error, never the end of the evaluation."""
    try:
        found = looprop.evaluate(m, [text, "the film is good"], ("loo", "cp-lrp"), ("loo-r", "morf"))
    except LoopropError as error:
        raise WrongError(f"one text ended an evaluation: {error}") from error
    if len(found.rows) != 4 or any(row["error"] for row in found.rows[2:]):
        raise WrongError(f"{len(found.rows)} rows of 4, or a good text failed: {found.first_error}")
    found.save(folder / "evaluation")
    if len(type(found).load(folder / "evaluation").rows) != 4:
        raise WrongError("rows are lost on the way to a file and back")
    check_page(found.save(folder / "e2.html").read_text(encoding="utf-8"))


def case(seed: int) -> Outcome:
    """One text."""
    dice = np.random.default_rng([seed, 2])
    m, text = bench(KINDS[int(dice.integers(len(KINDS)))]), hostile(dice)
    method = METHODS[int(dice.integers(len(METHODS)))]
    features = ("token", "token", "word", "chunk:3")[int(dice.integers(4))]
    truncation = bool(dice.integers(2))
    with tempfile.TemporaryDirectory(prefix="attack") as place:
        if seed % 4 == 0:
            check_evaluation(m, text, Path(place))
        try:
            item = (text, "the film") if seed % 11 == 0 and not m.adapter.causal else text
            found = m.explain(item, method, features=features, truncation=truncation)
        except LoopropError as error:
            str(error).encode("utf-8", "strict")
            return Outcome("refused", str(error)[:120])
        check_explanation(found)
        check_writing(found, Path(place), pictures=seed % 12 == 0)
    return Outcome("right")

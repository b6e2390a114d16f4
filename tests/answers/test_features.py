"""Features snapped to tokens, on every kind of tokenizer: what each holds is read off by decoding its own tokens."""

import re
from typing import Any

import pytest

import looprop
from looprop.errors import InputError, UnknownNameError
from looprop.models.features import divide
from looprop.models.layout import Layout, Part
from looprop.workbench import Workbench
from tiny import CHAT, CORPUS, KINDS, byte_level, tiny_classifier, tiny_decoder

TEXT = 'the film is good. "Not bad at all!" he said. dr. who paid 3.5 for it.\n\n这很好。我们走！ very great fun'
SENTENCES = ["the film is good.", '"Not bad at all!" he said.', "dr. who paid 3.5 for it.", "这很好。", "我们走！"]
SENTENCES += ["very great fun"]


@pytest.fixture(scope="module", params=KINDS)
def encoded(request: pytest.FixtureRequest) -> Any:
    """The text under a tokenizer of each kind: WordPiece, byte-level BPE, SentencePiece, byte fallback."""
    # Trained on the text itself, so that whole words, marks and characters are tokens.
    seen = {"corpus": [TEXT, *CORPUS] * 3, "size": 400}
    tokenizer = KINDS[request.param](**seen if request.param in ("byte-level", "sentencepiece") else {})
    load = tiny_decoder if request.param.startswith("byte") else tiny_classifier
    size = {"n_positions": 256} if request.param.startswith("byte") else {"max_position_embeddings": 256}
    return looprop.load(load(tokenizer, **size)).adapter.encode(TEXT.replace(". dr", ". Dr"))


def test_sentences_begin_and_end_at_tokens_of_their_own(encoded: Any) -> None:
    divided = divide(encoded, "sentence")
    wanted = [s.replace("dr. who", "Dr. who") for s in SENTENCES]
    assert divided.names == tuple(wanted)
    for group, sentence in zip(divided.groups, wanted, strict=True):
        first, last = (encoded.offsets[group[end]] for end in (0, -1))
        # The first token holds the sentence's first character, after space at the most, and the last its last.
        held = encoded.text[first[0] : last[1]]
        assert held.strip() == sentence, "no word of a neighbour, and none missing"
    inside = [i for group in divided.groups for i in group]
    assert inside == sorted(set(inside)), "every token once, in order"
    left = [i for i in range(len(encoded)) if i not in inside]
    assert set(left) == divided.encoded.fixed
    assert all(encoded.offsets[i] is None for i in left), "only what the tokenizer added is no feature"


def test_the_first_word_of_a_span_takes_its_space_along(encoded: Any) -> None:
    start = encoded.text.index("film")
    divided = divide(encoded, {"two words": (start, start + len("film is"))})
    (group,) = divided.groups
    assert encoded.text[encoded.offsets[group[0]][0] : encoded.offsets[group[-1]][1]].strip() == "film is"


@pytest.fixture(scope="module")
def decoder() -> Workbench:
    tokenizer = byte_level()
    tokenizer.chat_template = CHAT
    return looprop.load(tiny_decoder(tokenizer, n_positions=256))


def held(divided: Any) -> list[str]:
    names = divided.encoded.names
    return ["".join(names[i] for i in group) for group in divided.groups]


def test_kinds_by_name(decoder: Workbench) -> None:
    encoded = decoder.adapter.encode("one two.\nThree\n\nfour five. six 7")
    assert held(divide(encoded, "paragraph")) == ["one two.\nThree\n\n", "four five. six 7"]
    assert held(divide(encoded, "line")) == ["one two.\n", "Three\n\n", "four five. six 7"]
    assert held(divide(encoded, "sentence")) == ["one two.\n", "Three\n\n", "four five. six 7"]
    assert held(divide(encoded, "regex:[tT]\\w+")) == [" two", "Three"]
    assert held(divide(encoded, re.compile(r"\d"))) == [" 7"]
    assert held(divide(encoded, "word"))[:2] == ["one", " two"]
    assert len(divide(encoded, "token").groups) == len(encoded)


def test_within_keeps_the_rest(decoder: Workbench) -> None:
    encoded = decoder.adapter.encode("one two. three four.")
    divided = divide(encoded, "word", (9, 20))
    assert held(divided) == [" three", " four", "."]
    assert {encoded.names[i] for i in divided.encoded.fixed} >= {"."}
    assert held(divide(encoded, "sentence", [(0, 3), (9, 14)])) == ["one", " three"]
    assert divide(encoded, "token", "all").encoded.fixed == frozenset()


def test_turns_and_documents() -> None:
    text = "<system>be kind<user>is it good<assistant>"
    layout = Layout((Part("system", 8, 15), Part("user", 21, 31)), framed=True, counted_from=21)
    assert layout.spans(None, len(text)) == [(8, 15), (21, 31)]
    assert layout.spans("user", len(text)) == [(21, 31)]
    assert layout.spans(["system", "user"], len(text)) == [(8, 15), (21, 31)]
    assert layout.spans((0, 2), len(text)) == [(21, 23)], "characters count from the prompt's first"
    with pytest.raises(UnknownNameError, match=r"unknown part of the prompt 'usr'; did you mean 'user'"):
        layout.spans("usr", len(text))
    with pytest.raises(InputError, match="this input has none"):
        Layout().spans("user", 5)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"a": (0, 8), "b": (5, 9)}, "the spans 'a' and 'b' overlap"),
        ({"a": (0, 900)}, r"0 <= first < last <= 20, got \(0, 900\)"),
        ({"a": (3, 3)}, "a span must be two characters"),
        ({"a": (3, 4)}, "the span 'a' holds no token of its own"),
        ({}, "no spans were given"),
        ("regex:(", "is no regular expression"),
        ("regex:zebra", "no match of 'zebra'"),
        ("turn", "this input has no turns: make it with m.answer"),
        ("document", "this input has no documents: make it with m.context"),
        ("syllable", "features must be 'token'"),
    ],
)
def test_what_cannot_be_a_feature_is_refused(decoder: Workbench, features: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        divide(decoder.adapter.encode("one two. three four."), features)


def test_images_have_no_sentences() -> None:
    from looprop.models.encoded import Encoded

    plain = Encoded({}, ("a", "b"), "", (None, None), (False, False), (None, None))
    with pytest.raises(InputError, match="needs character offsets"):
        divide(plain, "sentence")


def test_a_review_by_sentence() -> None:
    bench = looprop.load(tiny_classifier())
    text = "the film is good. Not bad at all! Fun"
    explanation = bench.explain(text, "loo", features="sentence", target="positive")
    assert [text[slice(*span)] for span in explanation.offsets if span] == explanation.features
    assert not any(explanation.special), "the tokens that the tokenizer added are kept and get no score"
    value = bench.set_function(text, features="sentence", target="positive")
    keep = [[True] * len(explanation)] + [[j != i for j in range(len(explanation))] for i in range(len(explanation))]
    values = value(keep)
    assert explanation.scores == pytest.approx(values[0] - values[1:], abs=1e-6)  # float32: rounding goes by the batch

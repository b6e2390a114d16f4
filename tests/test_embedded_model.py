"""The embedded sentiment model: its files, its pruned vocabulary, and its card against what it really does."""

import itertools
import json
import os
import random
import re
import subprocess
import sys
import unicodedata
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from tokenizers import Tokenizer
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import looprop
from looprop.inputs import demo_sentences

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "src" / "looprop" / "assets" / "sentiment"
SPECIAL = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(FOLDER / "tokenizer.json"))


@cache
def vocabulary() -> dict[str, int]:
    return tokenizer().get_vocab()


@cache
def model() -> torch.nn.Module:
    return AutoModelForSequenceClassification.from_pretrained(FOLDER, dtype=torch.float32, local_files_only=True).eval()


def card() -> str:
    return (FOLDER / "README.md").read_text(encoding="utf-8")


def test_weights_are_small_finite_and_float16() -> None:
    assert (FOLDER / "model.safetensors").stat().st_size <= 36_000_000
    with safe_open(FOLDER / "model.safetensors", "np") as weights:
        tensors = {name: weights.get_tensor(name) for name in weights.keys()}  # noqa: SIM118
    assert {tensor.dtype for tensor in tensors.values()} == {np.dtype(np.float16)}
    assert all(np.isfinite(tensor).all() for tensor in tensors.values())
    assert tensors["bert.embeddings.word_embeddings.weight"].shape == (len(vocabulary()), 384)


def test_shape_and_labels() -> None:
    config = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))
    expected = {
        "num_hidden_layers": 6,
        "hidden_size": 384,
        "max_position_embeddings": 512,
        "vocab_size": len(vocabulary()),
    }
    assert {name: config[name] for name in expected} == expected
    assert config["id2label"] == {"0": "negative", "1": "positive"}
    assert config["architectures"] == ["BertForSequenceClassification"]


def test_nothing_of_the_machine_it_was_made_on() -> None:
    for path in FOLDER.glob("*.json"):
        assert not re.search(r'"(/[a-z]+)+/', path.read_text(encoding="utf-8")), path


def test_the_tokenizer_of_transformers_agrees() -> None:
    theirs = AutoTokenizer.from_pretrained(FOLDER, local_files_only=True)
    assert theirs.model_max_length == 512
    for text in demo_sentences().texts:
        assert theirs(text)["input_ids"] == tokenizer().encode(text).ids
    assert {theirs.mask_token, theirs.pad_token, theirs.unk_token, theirs.cls_token, theirs.sep_token} == SPECIAL


def test_ids_are_dense_and_special_tokens_are_kept() -> None:
    assert sorted(vocabulary().values()) == list(range(len(vocabulary())))
    assert set(vocabulary()) >= SPECIAL
    assert 16_000 <= len(vocabulary()) <= 18_000


def test_every_single_character_has_both_forms() -> None:
    first = {piece for piece in vocabulary() if len(piece) == 1}
    later = {piece[2:] for piece in vocabulary() if len(piece) == 3 and piece.startswith("##")}
    assert first == later
    assert {chr(i) for i in range(33, 127)} - first == {
        chr(i) for i in range(ord("A"), ord("Z") + 1)
    }  # lower case only


@settings(deadline=None)
@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789абвгдежзиклмнопрстαβγδεζηθικλ", min_size=1, max_size=100))
def test_any_word_of_known_letters_encodes(word: str) -> None:
    tokens = tokenizer().encode(word, add_special_tokens=False).tokens
    assert "".join(token.removeprefix("##") for token in tokens) == word


@pytest.mark.slow
@settings(max_examples=10_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text())
@example("")
@example("\x00\ufffd\u200d\u202e")
@example("[MASK][SEP]##a[unused1]")
@example("x" * 101)
@example("😀" * 600)
def test_no_text_makes_the_tokenizer_fail(text: str) -> None:
    encoding = tokenizer().encode(text)
    assert encoding.tokens[0] == "[CLS]"
    assert encoding.tokens[-1] == "[SEP]"
    assert all(0 <= i < len(vocabulary()) for i in encoding.ids)
    spans = encoding.offsets[1:-1]
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    # Spans never run backwards; they may coincide, as one Hangul syllable is several pieces.
    assert all(before[0] <= after[0] and before[1] <= after[1] for before, after in itertools.pairwise(spans))


def wordpiece(word: str, pieces: set[str]) -> list[str]:
    """The longest piece that fits, again and again; [UNK] for the whole word where none does. Straight from the
    definition.
    """
    result: list[str] = []
    start = 0
    while start < len(word):
        prefix = "##" if start else ""
        ends = [end for end in range(len(word), start, -1) if prefix + word[start:end] in pieces]
        if not ends or len(word) > 100:
            return ["[UNK]"]
        result.append(prefix + word[start : ends[0]])
        start = ends[0]
    return result


def words(text: str) -> list[str]:
    """BERT's words for Latin text: lower case, no accents, punctuation apart."""
    plain = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
    return re.findall(r"[a-z0-9]+|[^\sa-z0-9]", plain)


LATIN = st.text(alphabet="abcdefghilmnoprstuwy ABCéüñ0123.,'-!?", max_size=80)
PIECES = st.sampled_from(sorted(piece for piece in vocabulary() if piece.isascii() and piece.isalpha()))


@settings(deadline=None)
@given(st.one_of(LATIN, st.lists(PIECES, max_size=8).map(" ".join)))
def test_pieces_are_those_of_the_definition(text: str) -> None:
    pieces = set(vocabulary())
    expected = [piece for word in words(text) for piece in wordpiece(word, pieces)]
    assert tokenizer().encode(text, add_special_tokens=False).tokens == expected


@settings(deadline=None)
@given(st.lists(PIECES, min_size=1, max_size=3), st.integers(0, 1_000_000))
def test_a_smaller_vocabulary_cuts_alike_where_all_pieces_are_kept(parts: list[str], seed: int) -> None:
    # The property that pruning rests on, with a vocabulary that loses a random half of what it has beyond single
    # characters.
    word = "".join(parts)
    whole = wordpiece(word, set(vocabulary()))
    generator = random.Random(seed)
    kept = {
        piece
        for piece in vocabulary()
        if piece in whole or len(piece.removeprefix("##")) == 1 or generator.random() < 0.5
    }
    assert wordpiece(word, kept) == whole


def test_pruning_changes_only_what_lost_a_piece(tmp_path: Path) -> None:
    from training.vocabulary import kept_pieces, prune_tokenizer, relative_frequencies

    texts = demo_sentences().texts
    shares = relative_frequencies(tokenizer(), [texts[:12], texts[:6]])
    kept = kept_pieces(vocabulary(), shares, 60)
    prune_tokenizer(FOLDER, tmp_path, kept)
    pruned = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    alike = 0
    for text in texts:
        before, after = tokenizer().encode(text).tokens, pruned.encode(text).tokens
        assert (before == after) == (set(before) <= set(kept))
        alike += before == after
    assert 0 < alike < len(texts)


@pytest.mark.data
def test_same_pieces_as_the_base_where_all_were_kept(data_folder: Path) -> None:
    from training.evaluate import same_pieces

    from looprop.inputs import load_dataset

    if not (base := os.environ.get("LOOPROP_BASE_MODEL")):
        pytest.skip(
            "LOOPROP_BASE_MODEL is not set: no base tokenizer to compare with (the folder `make train` unpacks)"
        )
    original = Tokenizer.from_file(str(Path(base) / "tokenizer.json"))
    original.no_padding()
    original.no_truncation()
    texts = load_dataset("sst2", split="dev", folder=data_folder).texts
    for text in [*texts, *demo_sentences().texts]:
        before = original.encode(text).tokens
        assert (tokenizer().encode(text).tokens == before) == (set(before) <= set(vocabulary()))
    assert f"| same pieces dev | {same_pieces(FOLDER, Path(base), texts):.2f} % |" in card()


def test_it_has_learnt_something() -> None:
    logits = {}
    for text in ("A warm, funny and quietly moving film.", "The plot is thin and the acting is worse."):
        ids = torch.tensor([tokenizer().encode(text).ids])
        with torch.inference_mode():
            logits[text] = model()(input_ids=ids).logits[0]
    positive, negative = logits.values()
    assert positive[1] - positive[0] > 2
    assert negative[0] - negative[1] > 2


def test_512_tokens_fit() -> None:
    ids = torch.tensor([tokenizer().encode("good " * 510).ids])
    assert ids.shape == (1, 512)
    with torch.inference_mode():
        assert torch.isfinite(model()(input_ids=ids).logits).all()


@pytest.mark.data
@pytest.mark.slow
def test_the_card_says_what_one_command_measures(data_folder: Path) -> None:
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "training.evaluate", "--data", str(data_folder)]
    result = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    measured = dict(re.findall(r"^accuracy (\S+) +([\d.]+) %$", result.stdout, re.MULTILINE))
    assert set(measured) == {"glue/dev", "glue/test", "sentences/dev", "sentences/test"}
    for name, value in measured.items():
        assert f"| accuracy {name} | {value} % |" in card(), f"{name}: measured {value} %"
    assert float(measured["glue/dev"]) >= 89.5


def test_loading_from_disk_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    looprop.load()
    assert capfd.readouterr() == ("", "")

"""Text classifiers: targets, pairs, features, and the offsets and words of every kind of fast tokenizer."""

from typing import Any

import numpy as np
import pytest
import torch

import looprop
import tiny
from looprop.errors import InputError, TargetError, UnknownNameError
from looprop.methods import DefaultMethodWarning
from looprop.models.encoded import words_of

TEXT = "The film isn't good!"


@pytest.fixture(scope="module")
def classifier() -> looprop.Workbench:
    return looprop.load(tiny.tiny_classifier(dtype=torch.float64))


def logits_of(bench: looprop.Workbench, text: str | tuple[str, str]) -> Any:
    texts = (text,) if isinstance(text, str) else text
    with torch.no_grad():
        return bench.model(**bench.tokenizer(*texts, return_tensors="pt")).logits[0]


# ----- classes, labels, contrasts


def test_a_workbench_shows_what_it_holds(classifier: looprop.Workbench) -> None:
    assert repr(classifier) == "<Workbench: BertForSequenceClassification>"
    assert repr(looprop.load()) == "<Workbench: looprop-sentiment, BertForSequenceClassification>"


def test_predicted_class_is_the_default(classifier: looprop.Workbench) -> None:
    logits = logits_of(classifier, TEXT)
    e = classifier.explain(TEXT)
    assert e.target == int(logits.argmax())
    assert e.label == classifier.labels[int(logits.argmax())]
    assert e.output == pytest.approx(float(logits.max()))
    assert e.features[0] == "[CLS]"
    assert e.special[0]
    assert e.features[1] == "The"  # as written, not as the tokenizer spells it
    assert e.method == "looprop"
    complete = classifier.explain(TEXT, "cp-lrp")
    assert complete.residual == pytest.approx(complete.output - complete.scores.sum())


@pytest.mark.parametrize("target", [2, "positive", "POSITIVE", np.int64(2)])
def test_class_by_number_or_label(classifier: looprop.Workbench, target: Any) -> None:
    e = classifier.explain(TEXT, target=target)
    assert (e.target, e.label) == (2, "positive")
    assert e.output == pytest.approx(float(logits_of(classifier, TEXT)[2]))


@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp", "lrp[cp=1;epsilon=0.01]", "grad-x-input"])
def test_several_targets_from_one_forward_pass(classifier: looprop.Workbench, method: str) -> None:
    calls = []
    handle = classifier.model.register_forward_hook(lambda *_: calls.append(torch.is_grad_enabled()))
    try:
        together = classifier.explain(TEXT, method, target=[0, "positive", (2, 0)])
    finally:
        handle.remove()
    assert calls.count(True) == 1  # the others only predict
    for e, target in zip(together, (0, 2, (2, 0)), strict=True):
        alone = classifier.explain(TEXT, method, target=target)
        assert e.target == alone.target
        assert e.output == pytest.approx(alone.output)
        np.testing.assert_allclose(e.scores, alone.scores, rtol=1e-10, atol=1e-14)
        assert e.cost == pytest.approx(2 + 1 / 3)
        assert alone.cost == 3


@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp", "grad-x-input"])
def test_contrast_is_the_difference_of_two_explanations(classifier: looprop.Workbench, method: str) -> None:
    contrast = classifier.explain(TEXT, method, target=("positive", 0))
    plus, minus = (classifier.explain(TEXT, method, target=t) for t in (2, 0))
    np.testing.assert_allclose(contrast.scores, plus.scores - minus.scores, rtol=1e-8, atol=1e-12)
    assert contrast.output == pytest.approx(plus.output - minus.output)
    assert contrast.target == (2, 0)
    assert contrast.label == "positive - negative"


@pytest.mark.parametrize("target", [3, -1, True, 1.5, (0, 0), (0, 1, 2), [0, 7]], ids=str)
def test_targets_that_do_not_exist(classifier: looprop.Workbench, target: Any) -> None:
    with pytest.raises(TargetError):
        classifier.explain(TEXT, target=target)


def test_unknown_label_names_the_closest(classifier: looprop.Workbench) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'positive'"):
        classifier.explain(TEXT, target="positiv")


@pytest.mark.parametrize("method", ["cp-lrp", "loo"])
def test_one_target_for_each_text(classifier: looprop.Workbench, method: str) -> None:
    texts, targets = [TEXT, "good", TEXT], ["positive", (2, 0), 0]
    together = classifier.explain(texts, method, target=targets)
    for e, text, target in zip(together, texts, targets, strict=True):
        alone = classifier.explain(text, method, target=target)
        assert (e.text, e.target) == (text, alone.target)
        np.testing.assert_allclose(e.scores, alone.scores, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("targets", [[], [0], [0, 1, 2]], ids=len)
def test_as_many_targets_as_texts(classifier: looprop.Workbench, targets: list[int]) -> None:
    with pytest.raises(InputError, match=f"one for each input: 2 inputs, got {len(targets)} targets"):
        classifier.explain([TEXT, "good"], target=targets)


def test_empty_list_of_targets(classifier: looprop.Workbench) -> None:
    with pytest.raises(InputError, match="targets is empty"):
        classifier.explain(TEXT, target=[])


def test_regression_head_has_one_logit() -> None:
    bench = looprop.load(tiny.tiny_classifier(num_labels=1, id2label={0: "score"}, label2id={"score": 0}))
    e = bench.explain(TEXT)
    assert (e.target, e.label) == (0, "score")
    assert e.output == pytest.approx(float(logits_of(bench, TEXT)[0]), rel=1e-5)
    with pytest.raises(TargetError, match="1 classes"):
        bench.explain(TEXT, target=1)


def test_a_model_without_a_class_dimension() -> None:
    class Scorer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = torch.nn.Embedding(99, 8), torch.nn.Linear(8, 1)

        def get_input_embeddings(self) -> torch.nn.Module:
            return self.embedding

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            return self.head(self.embedding(input_ids).sum(1)).squeeze(-1)

    bench = looprop.load((Scorer(), tiny.wordpiece()))
    with pytest.warns(DefaultMethodWarning, match="explained by attnlrp, as looprop: Scorer takes an attention mask"):
        e = bench.explain(TEXT)
    assert e.method == "attnlrp"
    assert e.output == pytest.approx(e.scores.sum() + float(bench.model.head.bias.detach()), rel=1e-5)  # type: ignore[union-attr,operator]


def test_text_pair(classifier: looprop.Workbench) -> None:
    pair = ("the film", "not good")
    e = classifier.explain(pair, "attnlrp", target=1)
    assert e.features == ["[CLS]", "the", "film", "[SEP]", "not", "good", "[SEP]"]
    assert e.text == "the film\nnot good"
    assert [e.text[slice(*span)] for span in e.offsets if span] == ["the", "film", "not", "good"]
    assert e.output == pytest.approx(float(logits_of(classifier, pair)[1]))
    swapped = classifier.explain(("not good", "the film"), "attnlrp", target=1)
    assert swapped.output != pytest.approx(e.output)  # token types are passed on


def test_features_are_sums_of_their_tokens(classifier: looprop.Workbench) -> None:
    tokens = classifier.explain("the unbelievable film", "attnlrp")
    assert tokens.features == ["[CLS]", "the", "un", "believ", "able", "film", "[SEP]"]
    words = classifier.explain("the unbelievable film", "attnlrp", features="word")
    assert words.features == ["[CLS]", "the", "unbelievable", "film", "[SEP]"]
    np.testing.assert_allclose(words.scores, tokens.words().scores)
    assert words.scores[2] == pytest.approx(tokens.scores[2:5].sum())
    chunks = classifier.explain("the unbelievable film", "attnlrp", features="chunk:3")
    np.testing.assert_allclose(chunks.scores, [tokens.scores[:3].sum(), tokens.scores[3:6].sum(), tokens.scores[6]])


def test_readout_at_the_embedding_sum(classifier: looprop.Workbench) -> None:
    word, summed = (classifier.explain(TEXT, "cp-lrp", readout=readout) for readout in ("word", "sum"))
    assert np.abs(word.scores - summed.scores).max() > 1e-3
    with pytest.raises(InputError, match="readout must be 'word', 'sum'"):
        classifier.explain(TEXT, "cp-lrp", readout="words")


# ----- offsets and words


WORD_CASES = {
    "the film isn't good!": ["the", "film", "isn't", "good", "!"],
    "caf\u00e9 na\u00efve l\u2019\u00e9t\u00e9": ["caf\u00e9", "na\u00efve", "l\u2019\u00e9t\u00e9"],
    "cafe\u0301 ok": ["cafe\u0301", "ok"],  # the accent is a character of its own
    "good \u65e5\u672c\u8a9e film": ["good", "\u65e5", "\u672c", "\u8a9e", "film"],
    "bad \U0001f600 film": ["bad", "\U0001f600", "film"],
    "\U0001f44d\U0001f3fd ok": ["\U0001f44d\U0001f3fd", "ok"],  # skin tone
    "\u0939\u093f\u0928\u094d\u0926\u0940 ok": ["\u0939\u093f\u0928\u094d\u0926\u0940", "ok"],  # vowel signs
}


@pytest.mark.parametrize("kind", ["byte-level", "byte-fallback"])
@pytest.mark.parametrize(("text", "expected"), WORD_CASES.items())
def test_words_of_tokenizers_that_know_every_byte(kind: str, text: str, expected: list[str]) -> None:
    check_words(kind, text, expected)


@pytest.mark.parametrize("kind", ["wordpiece", "sentencepiece"])
@pytest.mark.parametrize(("text", "expected"), list(WORD_CASES.items())[:2])
def test_words_of_tokenizers_with_unknown_pieces(kind: str, text: str, expected: list[str]) -> None:
    check_words(kind, text, expected)


_benches: dict[str, looprop.Workbench] = {}


def check_words(kind: str, text: str, expected: list[str]) -> None:
    if kind not in _benches:
        _benches[kind] = looprop.load(tiny.tiny_classifier(tiny.KINDS[kind](), max_position_embeddings=64))
    e = _benches[kind].explain(text, "grad-x-input")
    for feature, span, special in zip(e.features, e.offsets, e.special, strict=True):
        assert (span is None) == special
        assert span is None or text[slice(*span)] == feature
    words = e.words()
    assert [w.strip() for w, special in zip(words.features, words.special, strict=True) if not special] == expected
    assert words.scores.sum() == pytest.approx(e.scores.sum())
    # Every character that is no space belongs to the span of some token.
    covered = {c for span in e.offsets if span for c in range(*span)}
    assert all(c in covered for c, character in enumerate(text) if not character.isspace())


def test_joined_and_paired_emoji_are_one_word() -> None:
    text = "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f \U0001f1eb\U0001f1f7\U0001f1e9\U0001f1ea"
    spans = [(i, i + 1) for i in range(len(text))]
    assert words_of(text, spans) == (0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3)


def test_a_slow_tokenizer_has_no_offsets() -> None:
    class Slow:
        """What a tokenizer without offsets offers."""

        is_fast = False
        pad_token_id = 0

        def __init__(self) -> None:
            self.fast = tiny.wordpiece()

        def __call__(self, *texts: str, return_offsets_mapping: bool = False, **options: Any) -> Any:
            assert not return_offsets_mapping
            return self.fast(*texts, **options)

        def convert_ids_to_tokens(self, ids: list[int]) -> Any:
            return self.fast.convert_ids_to_tokens(ids)

    bench = looprop.load((tiny.tiny_classifier()[0], Slow()))
    e = bench.explain("unbelievable")
    assert e.features == ["[CLS]", "un", "##believ", "##able", "[SEP]"]
    assert e.offsets == [None] * 5
    with pytest.raises(InputError, match="fast tokenizer"):
        bench.explain("unbelievable", features="word")

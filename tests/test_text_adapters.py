"""Text classifiers, causal language models and image classifiers: targets, offsets, words."""

from typing import Any

import numpy as np
import pytest
import tiny
import torch
import transformers as hf
import zoo

import looprop
from looprop.errors import InputError, TargetError, UnknownNameError
from looprop.models.encoded import words_of

TEXT = "The film isn't good!"


@pytest.fixture(scope="module")
def classifier() -> looprop.Workbench:
    return looprop.load(tiny.tiny_classifier(dtype=torch.float64))


@pytest.fixture(scope="module")
def decoder() -> looprop.Workbench:
    return looprop.load(tiny.tiny_decoder(dtype=torch.float64))


def logits_of(bench: looprop.Workbench, text: str | tuple[str, str]) -> Any:
    texts = (text,) if isinstance(text, str) else text
    with torch.no_grad():
        return bench.model(**bench.tokenizer(*texts, return_tensors="pt")).logits[0]


# ----- classes, labels, contrasts


def test_predicted_class_is_the_default(classifier: looprop.Workbench) -> None:
    logits = logits_of(classifier, TEXT)
    e = classifier.explain(TEXT)
    assert e.target == int(logits.argmax())
    assert e.label == classifier.labels[int(logits.argmax())]
    assert e.output == pytest.approx(float(logits.max()))
    assert e.features[0] == "[CLS]"
    assert e.special[0]
    assert e.features[1] == "The"  # as written, not as the tokenizer spells it
    assert e.method == "cp-lrp"
    assert e.residual == pytest.approx(e.output - e.scores.sum())


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
    e = bench.explain(TEXT)
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
    word, summed = (classifier.explain(TEXT, readout=readout) for readout in ("word", "sum"))
    assert np.abs(word.scores - summed.scores).max() > 1e-3
    with pytest.raises(InputError, match="readout must be 'word' or 'sum'"):
        classifier.explain(TEXT, readout="words")


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


# ----- causal language models


def last_logits(bench: looprop.Workbench, text: str) -> Any:
    return logits_of(bench, text)[-1]


def test_next_token_by_default_by_id_and_by_text(decoder: looprop.Workbench) -> None:
    logits = last_logits(decoder, "the film is")
    e = decoder.explain("the film is")
    assert e.target == int(logits.argmax())
    assert e.output == pytest.approx(float(logits.max()))
    good = decoder.tokenizer(" good")["input_ids"]
    assert len(good) == 1
    by_text, by_id = decoder.explain("the film is", target=" good"), decoder.explain("the film is", target=good[0])
    assert by_text.target == by_id.target == good[0]
    assert by_text.label == " good"
    assert by_text.output == pytest.approx(float(logits[good[0]]))
    np.testing.assert_array_equal(by_text.scores, by_id.scores)


def test_pair_of_tokens(decoder: looprop.Workbench) -> None:
    logits = last_logits(decoder, "the film is")
    good, bad = (decoder.tokenizer(t)["input_ids"][0] for t in (" good", " bad"))
    e = decoder.explain("the film is", target=(" good", " bad"))
    assert e.target == (good, bad)
    assert e.output == pytest.approx(float(logits[good] - logits[bad]))
    plus, minus = (decoder.explain("the film is", target=t) for t in (good, bad))
    np.testing.assert_allclose(e.scores, plus.scores - minus.scores, rtol=1e-8, atol=1e-12)


def test_continuation_is_a_sum_of_log_probabilities(decoder: looprop.Workbench) -> None:
    text, continuation = "the film is", " not good!"
    e = decoder.explain(text, "grad-x-input", target=f"continuation:{continuation}")
    ids = decoder.tokenizer(continuation)["input_ids"]
    expected, so_far = 0.0, decoder.tokenizer(text)["input_ids"]
    for token in ids:  # one token after the other, each from its own forward pass
        with torch.no_grad():
            logits = decoder.model(input_ids=torch.tensor([so_far])).logits[0, -1]
        expected += float(logits[token] - torch.logsumexp(logits, 0))
        so_far = [*so_far, token]
    assert len(ids) > 1
    assert e.output == pytest.approx(expected)
    assert len(e) == len(decoder.tokenizer(text)["input_ids"])  # the continuation is context, not a feature
    assert e.target == continuation


def test_continuation_gradient_by_finite_differences(decoder: looprop.Workbench) -> None:
    """x dg/dx along the embedding of one token: scale it by 1 + h."""
    text, continuation = "the film is", " good!"
    e = decoder.explain(text, "grad-x-input", target=f"continuation:{continuation}")
    ids, extra = (decoder.tokenizer(t)["input_ids"] for t in (text, continuation))
    embedded = decoder.model.get_input_embeddings()(torch.tensor([ids + extra])).detach()  # type: ignore[operator]

    def value(position: int, factor: float) -> float:
        scaled = embedded.clone()
        scaled[0, position] *= factor
        with torch.no_grad():
            log_probabilities = decoder.model(inputs_embeds=scaled).logits[0].log_softmax(-1)
        return sum(float(log_probabilities[len(ids) - 1 + k, token]) for k, token in enumerate(extra))

    h = 1e-5
    expected = [(value(i, 1 + h) - value(i, 1 - h)) / (2 * h) for i in range(len(ids))]
    np.testing.assert_allclose(e.scores, expected, rtol=1e-5, atol=1e-8)


def test_targets_of_different_kinds_together(decoder: looprop.Workbench) -> None:
    """A continuation makes the input longer; the others must not see that."""
    targets = ["continuation: good!", " bad", "continuation: fun"]
    for e, target in zip(decoder.explain("the film is", target=targets), targets, strict=True):
        alone = decoder.explain("the film is", target=target)
        assert e.output == pytest.approx(alone.output)
        np.testing.assert_allclose(e.scores, alone.scores, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (" not good", "3 tokens of this model, a target must be one"),
        (300, "from 0 to 299"),
        (-1, "from 0 to 299"),
        (True, "a text or an id"),
        ((1, 2, 3), "a pair"),
        ((" good", " good"), "two different tokens"),
        ("continuation:", "continuation is empty"),
        ("continuation:" + "x" * 70, "the model takes 64 together"),
    ],
)
def test_tokens_that_cannot_be_targets(decoder: looprop.Workbench, target: Any, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        decoder.explain("the film is", target=target)


def test_a_word_outside_the_vocabulary_is_no_target() -> None:
    tokenizer = tiny.wordpiece()
    bench = looprop.load(tiny.tiny_decoder(tokenizer))
    with pytest.raises(TargetError, match="not in the vocabulary"):
        bench.explain("the film is", target="\u65e5")
    assert bench.explain("the film is", target="good").label == "good"


def test_sentencepiece_decoder_takes_a_word_as_target() -> None:
    tokenizer = tiny.byte_fallback()
    config = hf.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
        max_position_embeddings=64,
    )  # fmt: skip
    torch.manual_seed(0)
    bench = looprop.load((hf.LlamaForCausalLM(config), tokenizer))
    e = bench.explain("the good", target="good")
    assert e.target == tokenizer.convert_tokens_to_ids("▁good")
    assert e.features == ["<s>", "the", " good"]
    assert e.special == [True, False, False]


def test_causal_models_ignore_what_comes_later(decoder: looprop.Workbench) -> None:
    """The last token's own logits come from everything before it: all tokens count, and nothing else does."""
    e = decoder.explain("the film is not good", "attnlrp")
    assert (np.abs(e.scores) > 0).all()


# ----- images


@pytest.fixture(scope="module")
def vit() -> looprop.Workbench:
    return looprop.Workbench(looprop.load((zoo.build("vit"), None)).adapter)


def image(seed: int = 0) -> torch.Tensor:
    return torch.rand(1, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp", "grad-x-input"])
def test_patches_add_up_to_their_pixels(vit: looprop.Workbench, method: str) -> None:
    e = vit.explain(image(), method, target=1)
    assert len(e) == 16
    pixels = looprop.attribute(lambda x: vit.model(pixel_values=x).logits, image()[None], method, target=1)[0, 0]
    for row in range(4):
        for column in range(4):
            expected = float(pixels[4 * row : 4 * row + 4, 4 * column : 4 * column + 4].sum())
            assert e.scores[4 * row + column] == pytest.approx(expected, rel=1e-9, abs=1e-12)
            assert e.features[4 * row + column] == f"{row},{column}"
    assert e.scores.sum() == pytest.approx(float(pixels.sum()))


def test_images_in_a_batch_and_as_arrays(vit: looprop.Workbench) -> None:
    together = vit.explain([image(0), image(1).numpy()], "attnlrp")
    for seed, e in enumerate(together):
        np.testing.assert_allclose(e.scores, vit.explain(image(seed)[None], "attnlrp").scores, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (torch.zeros(1, 8, 8), "shape"),
        (torch.zeros(2, 1, 16, 16), "shape"),
        (torch.zeros(1, 16, 16, dtype=torch.uint8), "floating-point"),
        (torch.full((1, 16, 16), torch.nan), "NaN"),
        ("cat.png", "give the image processor"),
    ],
    ids=["small", "batch", "bytes", "nan", "path"],
)
def test_images_that_cannot_be_explained(vit: looprop.Workbench, bad: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        vit.explain(bad)


def test_image_that_is_no_multiple_of_the_patch() -> None:
    torch.manual_seed(0)
    config = hf.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=18, patch_size=4, num_channels=1, num_labels=2
    )
    bench = looprop.load((hf.ViTForImageClassification(config), None))
    x = torch.rand(1, 18, 18)
    e = bench.explain(x, "attnlrp", target=0)
    pixels = looprop.attribute(lambda y: bench.model(pixel_values=y).logits, x[None], "attnlrp", target=0)
    assert len(e) == 16
    assert e.scores.sum() == pytest.approx(float(pixels.sum()), rel=1e-4)

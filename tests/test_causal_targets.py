"""Causal language models: a token, a pair of tokens, or a whole continuation as the target."""

from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

import looprop
import tiny
from looprop.errors import TargetError


@pytest.fixture(scope="module")
def decoder() -> looprop.Workbench:
    return looprop.load(tiny.tiny_decoder(dtype=torch.float64))


def logits_of(bench: looprop.Workbench, text: str) -> Any:
    with torch.no_grad():
        return bench.model(**bench.tokenizer(text, return_tensors="pt")).logits[0]


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
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
        max_position_embeddings=64,
    )
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

"""A batch with padding gives what every input gives alone: encoders padded on the right, decoders on the left."""

import re
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

import looprop
import tiny
import zoo
from looprop.errors import InputError
from looprop.methods.registry import CATALOGUE

TEXTS = ["the film", "a very bad movie, isn't it?", "this was unbelievable fun and great!", "good"]
# Of random networks integrated gradients warns, rightly.
pytestmark = pytest.mark.filterwarnings("ignore::looprop.methods.ig.IntegratedGradientsWarning")
METHODS = [a.coarse or a.example or a.name for a in CATALOGUE.values()] + ["lrp[cp=2;epsilon=0.01]"]


def assert_batch_is_one_by_one(
    bench: looprop.Workbench, methods: list[str], tolerance: float = 1e-5, **options: Any
) -> None:
    for method in methods:
        try:
            together = bench.explain(TEXTS, method, **options)
        except InputError as refused:  # a method that has no meaning for a model says so of each input, too
            for text in TEXTS:
                with pytest.raises(InputError, match=re.escape(str(refused)[:60])):
                    bench.explain(text, method, **options)
            assert method in ("pa-lrp", "value-zeroing"), method
            continue
        assert len(together) == len(TEXTS)
        for text, e in zip(TEXTS, together, strict=True):
            alone = bench.explain(text, method, **options)
            assert e.features == alone.features
            assert e.target == alone.target
            assert e.output == pytest.approx(alone.output, rel=tolerance, abs=tolerance)
            assert np.abs(e.scores - alone.scores).max() <= tolerance * np.abs(alone.scores).max(), method


@pytest.mark.parametrize("name", [*zoo.ENCODERS, *zoo.OTHERS])
def test_encoders(name: str) -> None:
    """Also where the answer is a mean over all positions, into which padding would leak."""
    assert_batch_is_one_by_one(looprop.load((zoo.build(name), tiny.wordpiece())), METHODS)


@pytest.mark.parametrize("name", zoo.DECODERS)
def test_decoders(name: str) -> None:
    assert_batch_is_one_by_one(looprop.load((zoo.build(name), tiny.wordpiece())), METHODS)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_gpt2_without_pad_token(implementation: str) -> None:
    model, tokenizer = tiny.tiny_decoder(tiny.byte_level(pad=False))
    assert tokenizer.pad_token_id is None
    model.set_attn_implementation(implementation)
    assert_batch_is_one_by_one(looprop.load((model, tokenizer)), METHODS)


def test_continuations_of_a_batch() -> None:
    bench = looprop.load(tiny.tiny_decoder())
    assert_batch_is_one_by_one(bench, ["attnlrp", "cp-lrp"], target="continuation: and fun")


@pytest.mark.parametrize("pad", [None, 0, 5])
def test_classifiers_on_decoders(pad: int | None) -> None:
    """They read the last token that is no padding; without a padding token they take one text at a time. 5 is not the
    tokenizer's.
    """
    tokenizer = tiny.wordpiece()
    torch.manual_seed(0)
    config = hf.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
        max_position_embeddings=64,
        num_labels=3,
        pad_token_id=pad,
    )
    assert_batch_is_one_by_one(looprop.load((hf.LlamaForSequenceClassification(config), tokenizer)), ["attnlrp"])


def test_batches_keep_to_their_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = looprop.load(tiny.tiny_classifier())
    sizes: list[int] = []
    handle = bench.model.register_forward_pre_hook(
        lambda _, args, kwargs: sizes.append(kwargs["input_ids"].numel()) if torch.is_grad_enabled() else None,
        with_kwargs=True,
    )
    from looprop.methods.parts import propagating

    monkeypatch.setattr(propagating.batches, "__defaults__", (30,))
    try:
        many = bench.explain(TEXTS * 3, "attnlrp")
    finally:
        handle.remove()
    assert len(sizes) > 1
    assert max(sizes) <= 30
    for i, e in enumerate(many):
        np.testing.assert_allclose(e.scores, many[i % len(TEXTS)].scores, rtol=1e-4, atol=1e-6)


def test_one_target_for_all() -> None:
    assert_batch_is_one_by_one(looprop.load(tiny.tiny_classifier()), ["attnlrp"], target=("positive", "negative"))


def test_texts_and_pairs_in_one_batch() -> None:
    bench = looprop.load(tiny.tiny_classifier())
    items: list[Any] = ["the film", ("the film", "not good"), "bad"]
    for item, e in zip(items, bench.explain(items, "attnlrp"), strict=True):
        np.testing.assert_allclose(e.scores, bench.explain(item, "attnlrp").scores, rtol=1e-4, atol=1e-6)

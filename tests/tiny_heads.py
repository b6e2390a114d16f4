"""Tiny random models of every head that `looprop.load` takes, besides classifiers of texts and causal models."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import transformers as hf

import looprop
from tiny import stir, wordpiece

VOCABULARY = 99
SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 96,
}
DECODER: dict[str, Any] = {
    **SMALL,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
}
BOTH: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 96,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
    "decoder_start_token_id": 3,
}
ENDS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
PLACES: dict[str, Any] = {"id2label": {0: "O", 1: "B-LOC", 2: "I-LOC"}, "label2id": {"O": 0, "B-LOC": 1, "I-LOC": 2}}
GPT: dict[str, Any] = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 96}
VISION = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "image_size": 16,
    "patch_size": 4,
}


def _t5() -> Any:
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
    return hf.T5ForConditionalGeneration(
        hf.T5Config(vocab_size=VOCABULARY, decoder_start_token_id=0, pad_token_id=0, eos_token_id=3, **sizes)
    )


def _bart() -> Any:
    model = hf.BartForConditionalGeneration(hf.BartConfig(**BOTH))
    model.generation_config.forced_bos_token_id = 2
    return model


def _bert2bert() -> Any:
    encoder, decoder = hf.BertConfig(**SMALL), hf.BertConfig(**SMALL, is_decoder=True, add_cross_attention=True)
    config = hf.EncoderDecoderConfig(encoder=encoder.to_dict(), decoder=decoder.to_dict(), decoder_start_token_id=2)
    return hf.EncoderDecoderModel(config=config)


def _gemma3() -> Any:
    text = hf.Gemma3TextConfig(**DECODER, sliding_window=16)
    return hf.Gemma3ForConditionalGeneration(
        hf.Gemma3Config(text_config=text, vision_config=hf.SiglipVisionConfig(**VISION), mm_tokens_per_image=4)
    )


TWO_STACKS: dict[str, Callable[[], Any]] = {
    "t5": _t5,
    "bart": _bart,
    "pegasus": lambda: hf.PegasusForConditionalGeneration(hf.PegasusConfig(**BOTH)),
    "marian": lambda: hf.MarianMTModel(hf.MarianConfig(**BOTH)),
    "m2m_100": lambda: hf.M2M100ForConditionalGeneration(hf.M2M100Config(**BOTH)),
    "bert2bert": _bert2bert,
}
ONE_STACK: dict[str, Callable[[], Any]] = {
    "gemma3": _gemma3,
    "bert-generation": lambda: hf.BertGenerationDecoder(hf.BertGenerationConfig(**SMALL, **ENDS, is_decoder=True)),
}
MASKED: dict[str, Callable[[], Any]] = {
    "bert-mlm": lambda: hf.BertForMaskedLM(hf.BertConfig(**SMALL)),
    "albert-mlm": lambda: hf.AlbertForMaskedLM(hf.AlbertConfig(**{**SMALL, "embedding_size": 16})),
    "mpnet-mlm": lambda: hf.MPNetForMaskedLM(hf.MPNetConfig(**SMALL)),
}
TAGGERS: dict[str, Callable[[], Any]] = {
    "bert-ner": lambda: hf.BertForTokenClassification(hf.BertConfig(**SMALL, **PLACES)),
    "roberta-ner": lambda: hf.RobertaForTokenClassification(hf.RobertaConfig(**SMALL, **PLACES, pad_token_id=0)),
    "gpt2-ner": lambda: hf.GPT2ForTokenClassification(hf.GPT2Config(**GPT, **PLACES, **ENDS)),
}
ANSWERERS: dict[str, Callable[[], Any]] = {
    "bert-qa": lambda: hf.BertForQuestionAnswering(hf.BertConfig(**SMALL)),
    "distilbert-qa": lambda: hf.DistilBertForQuestionAnswering(
        hf.DistilBertConfig(
            vocab_size=VOCABULARY, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=96
        )
    ),
    "big_bird-qa": lambda: hf.BigBirdForQuestionAnswering(hf.BigBirdConfig(**SMALL, attention_type="original_full")),
}
TEXTS = {**TWO_STACKS, **ONE_STACK, **MASKED, **TAGGERS, **ANSWERERS}

SIZED = {"num_labels": 3}
IMAGES: dict[str, Callable[[], Any]] = {
    "clip": lambda: hf.CLIPForImageClassification(hf.CLIPConfig(vision_config=VISION, **SIZED)),
    "siglip": lambda: hf.SiglipForImageClassification(hf.SiglipConfig(vision_config=VISION, **SIZED)),
    "swin": lambda: hf.SwinForImageClassification(
        hf.SwinConfig(
            image_size=16, patch_size=2, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4, **SIZED
        )
    ),
    "resnet": lambda: hf.ResNetForImageClassification(
        hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], **SIZED)
    ),
}
_STEM = {
    "conv_dim": (16, 16),
    "conv_stride": (5, 2),
    "conv_kernel": (10, 3),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 2,
    "classifier_proj_size": 16,
}
_BODY = {k: SMALL[k] for k in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")}
SOUNDS: dict[str, Callable[[], Any]] = {
    "wav2vec2": lambda: hf.Wav2Vec2ForSequenceClassification(hf.Wav2Vec2Config(**_BODY, **_STEM, **SIZED)),
    "ast": lambda: hf.ASTForAudioClassification(
        hf.ASTConfig(**_BODY, patch_size=8, max_length=24, num_mel_bins=16, time_stride=8, frequency_stride=8, **SIZED)
    ),
    "whisper": lambda: hf.WhisperForAudioClassification(
        hf.WhisperConfig(
            **{**BOTH, "vocab_size": 99, "num_mel_bins": 16, "max_source_positions": 12, "classifier_proj_size": 16},
            **SIZED,
        )
    ),
}


def model_of(name: str, dtype: torch.dtype = torch.float64) -> Any:
    """A tiny model, random, in eval mode."""
    torch.manual_seed(0)
    return stir({**TEXTS, **IMAGES, **SOUNDS}[name](), dtype)


@cache
def bench(name: str) -> looprop.Workbench:
    """The same by plain `load`."""
    return looprop.load((model_of(name), wordpiece() if name in TEXTS else None))


def words(length: int, seed: int = 0) -> list[str]:
    """Single letters and digits of the alphabet: each is one token of its own."""
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    order = torch.randint(0, 26, (length,), generator=torch.Generator().manual_seed(seed + length))
    return [letters[int(i)] for i in order]


def text_of(name: str, length: int) -> Any:
    """An input of so many tokens, the special ones included."""
    if name in ANSWERERS:
        own = words(length - 3)
        return " ".join(own[: len(own) // 3 or 1]), " ".join(own[len(own) // 3 or 1 :])
    own = words(length - 2)
    if name in MASKED:
        own[len(own) // 2] = "[MASK]"
    return " ".join(own)


def sound_of(name: str) -> torch.Tensor:
    """A sound as the model takes it: samples (N,), frames (T, F), or lying on the side (F, T)."""
    shape = {"wav2vec2": (203,), "ast": (24, 16), "whisper": (16, 24)}[name]
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def image_of(size: int = 16) -> torch.Tensor:
    """A random image."""
    return torch.randn(3, size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

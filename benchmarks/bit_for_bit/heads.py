"""Small models of every head that `looprop.load` takes, each with inputs and targets, and decoders that answer."""

from collections.abc import Callable
from typing import Any

from benchmarks.bit_for_bit.models import CORPUS, LABELLED, SMALL, byte_level, stirred, wordpiece

TEXT = "the film is not good , this movie was great"
QUESTION = ("is the film good", "a great film it was not a bad movie")
MASKED = "the film is [MASK] good , this movie was great"
CHAT = (
    "{% for turn in messages %}<{{ turn.role }}>{{ turn.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
PLACES: dict[str, Any] = {"id2label": {0: "O", 1: "B-LOC", 2: "I-LOC"}, "label2id": {"O": 0, "B-LOC": 1, "I-LOC": 2}}
VISION: dict[str, Any] = {**SMALL, "image_size": 16, "patch_size": 4}

Head = tuple[Callable[[], Any], Any, list[Any], list[Any]]
"""What builds the model, its tokenizer, inputs, targets."""


def texts() -> dict[str, Head]:
    """Models of texts, other than classifiers of sequences and decoders."""
    import transformers as hf

    tokenizer = wordpiece()
    sizes: dict[str, Any] = {"vocab_size": len(tokenizer), **SMALL, "max_position_embeddings": 96}
    ends = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    both: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "max_position_embeddings": 96,
        "decoder_start_token_id": 3,
        **ends,
    }
    t5 = {"vocab_size": len(tokenizer), "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}

    def bert2bert() -> Any:
        encoder, decoder = hf.BertConfig(**sizes), hf.BertConfig(**sizes, is_decoder=True, add_cross_attention=True)
        return hf.EncoderDecoderModel(
            config=hf.EncoderDecoderConfig(
                encoder=encoder.to_dict(), decoder=decoder.to_dict(), decoder_start_token_id=2
            )
        )

    def gemma3() -> Any:
        text = hf.Gemma3TextConfig(**sizes, **ends, num_key_value_heads=2, head_dim=8, sliding_window=8)
        vision = hf.SiglipVisionConfig(**VISION)
        return hf.Gemma3ForConditionalGeneration(
            hf.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4)
        )

    says = ([TEXT, "good"], [None, "continuation:good fun .", ("good", "bad")])
    fills = ([MASKED], [None, "good", ("good", "bad")])
    tags = ([TEXT], [None, "good=B-LOC", ("good", "B-LOC", "O")])
    answers = ([QUESTION], [None, ("start", 7), ("end", 9), (7, 8)])
    return {
        "t5": (
            lambda: hf.T5ForConditionalGeneration(
                hf.T5Config(decoder_start_token_id=0, pad_token_id=0, eos_token_id=3, **t5)
            ),
            tokenizer,
            *says,
        ),
        "bart": (lambda: hf.BartForConditionalGeneration(hf.BartConfig(**both)), tokenizer, *says),
        "marian": (lambda: hf.MarianMTModel(hf.MarianConfig(**both)), tokenizer, *says),
        "bert2bert": (bert2bert, tokenizer, *says),
        "gemma3 of images": (gemma3, tokenizer, *says),
        "bert masked": (lambda: hf.BertForMaskedLM(hf.BertConfig(**sizes)), tokenizer, *fills),
        "mpnet masked": (lambda: hf.MPNetForMaskedLM(hf.MPNetConfig(**sizes)), tokenizer, *fills),
        "bert tokens": (lambda: hf.BertForTokenClassification(hf.BertConfig(**sizes, **PLACES)), tokenizer, *tags),
        "gpt2 tokens": (
            lambda: hf.GPT2ForTokenClassification(
                hf.GPT2Config(vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=4, n_positions=96, **PLACES)
            ),
            tokenizer,
            *tags,
        ),
        "bert questions": (lambda: hf.BertForQuestionAnswering(hf.BertConfig(**sizes)), tokenizer, *answers),
        "big bird questions": (
            lambda: hf.BigBirdForQuestionAnswering(hf.BigBirdConfig(**sizes, attention_type="original_full")),
            tokenizer,
            *answers,
        ),
    }


def images_and_sounds() -> dict[str, Head]:
    """Classifiers of images other than ViT, and of sounds."""
    import torch
    import transformers as hf

    draw = torch.Generator().manual_seed(1)
    image, samples = torch.randn(3, 16, 16, generator=draw), torch.randn(203, generator=draw)
    frames = torch.randn(24, 16, generator=draw)
    stem = {
        "conv_dim": (16, 16),
        "conv_stride": (5, 2),
        "conv_kernel": (10, 3),
        "num_feat_extract_layers": 2,
        "num_conv_pos_embeddings": 8,
        "num_conv_pos_embedding_groups": 2,
        "classifier_proj_size": 16,
    }
    swin = {"image_size": 16, "patch_size": 2, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4]}
    resnet = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}
    spectrum = {"patch_size": 8, "max_length": 24, "num_mel_bins": 16, "time_stride": 8, "frequency_stride": 8}
    targets = [None, 1, (2, 0)]
    return {
        "clip": (
            lambda: hf.CLIPForImageClassification(hf.CLIPConfig(vision_config=VISION, **LABELLED)),
            None,
            [image],
            targets,
        ),
        "swin": (
            lambda: hf.SwinForImageClassification(hf.SwinConfig(**swin, window_size=4, **LABELLED)),
            None,
            [image],
            targets,
        ),
        "resnet": (
            lambda: hf.ResNetForImageClassification(hf.ResNetConfig(**resnet, **LABELLED)),
            None,
            [image],
            targets,
        ),
        "wav2vec2": (
            lambda: hf.Wav2Vec2ForSequenceClassification(hf.Wav2Vec2Config(**SMALL, **stem, **LABELLED)),
            None,
            [samples],
            targets,
        ),
        "ast": (
            lambda: hf.ASTForAudioClassification(hf.ASTConfig(**SMALL, **spectrum, **LABELLED)),
            None,
            [frames],
            targets,
        ),
    }


def decoder(*, chat: bool = True, positions: int = 512) -> tuple[Any, Any]:
    """A GPT-2 that answers prompts, with a chat template or without. " positive" and " negative" are one token each."""
    import transformers as hf

    tokenizer = byte_level([" positive negative"] * 2 + CORPUS)
    tokenizer.chat_template = CHAT if chat else None
    ends = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": None}
    config = hf.GPT2Config(vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=4, n_positions=positions, **ends)
    return stirred(lambda: hf.GPT2LMHeadModel(config)), tokenizer

"""Tiny tokenizers of the kinds that fast tokenizers come in, and tiny random models that go with them."""

from typing import Any

import torch
import transformers as hf
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import nn

WORDS = "the film is not good bad very great a it this movie was un ##believ ##able fun and".split()
CORPUS = [
    "the film is not good",
    "a very bad movie , isn't it ?",
    "this was unbelievable fun and great",
    "the great the good the bad",
]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

CHAT = (
    "{% for turn in messages %}<{{ turn.role }}>{{ turn.content }}{% endfor %}{% if add_generation_prompt "
    "%}<assistant>{% endif %}"
)
"""A chat template."""


def _wrapped(tokenizer: Tokenizer, **special: str) -> Any:
    return hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def wordpiece() -> Any:
    """BERT's kind: lower case, accents stripped, pieces that go on begin with ##. At most 99 pieces, as the zoo's
    models take.
    """
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    pieces = dict.fromkeys([*SPECIAL, *WORDS, *letters, *(f"##{c}" for c in letters), *".,!?'"])
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.decoder = decoders.WordPiece()
    return _wrapped(
        tokenizer, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]"
    )


def byte_level(*, pad: bool = True, corpus: list[str] = CORPUS, size: int = 300) -> Any:
    """GPT-2's kind: pieces of bytes, a space belongs to the word after it, nothing is ever unknown."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(
        corpus,
        trainers.BpeTrainer(
            vocab_size=size, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False
        ),
    )
    return _wrapped(tokenizer, bos_token="<|end|>", eos_token="<|end|>", **({"pad_token": "<|end|>"} if pad else {}))


def sentencepiece(*, corpus: list[str] = CORPUS, size: int = 60) -> Any:
    """T5's kind: a unigram model over pieces in which ▁ stands for a space."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=size, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return _wrapped(tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


def byte_fallback() -> Any:
    """Llama's kind: BPE over pieces with ▁ for a space, single bytes for what it does not know."""
    special = ["<unk>", "<s>", "</s>"]
    letters = ["▁", *map(chr, range(ord("a"), ord("z") + 1)), ".", ",", "!", "?", "'"]
    merges = [("t", "h"), ("th", "e"), ("▁", "the"), ("g", "o"), ("o", "d"), ("go", "od"), ("▁", "good")]
    pieces = [*special, *(f"<0x{byte:02X}>" for byte in range(256)), *letters, *("".join(pair) for pair in merges)]
    vocabulary = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in special])
    return _wrapped(tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>")


KINDS = {
    "wordpiece": wordpiece,
    "byte-level": byte_level,
    "sentencepiece": sentencepiece,
    "byte-fallback": byte_fallback,
}


def stir(model: nn.Module, dtype: torch.dtype) -> Any:
    """Random biases and gains, so that nothing is trivially zero or one; eval mode."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.to(dtype).eval()


def tiny_classifier(tokenizer: Any = None, *, dtype: torch.dtype = torch.float32, **config: Any) -> tuple[Any, Any]:
    """A BERT classifier with three labels, and a tokenizer (WordPiece unless another is given)."""
    tokenizer = tokenizer or wordpiece()
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
    }
    labels = {0: "negative", 1: "neutral", 2: "positive"}
    settings = {
        **sizes,
        "max_position_embeddings": 32,
        "id2label": labels,
        "label2id": {v: k for k, v in labels.items()},
        **config,
    }
    model = hf.BertForSequenceClassification(hf.BertConfig(vocab_size=len(tokenizer), **settings))
    return stir(model, dtype), tokenizer


def tiny_decoder(tokenizer: Any = None, *, dtype: torch.dtype = torch.float32, **config: Any) -> tuple[Any, Any]:
    """A GPT-2 and its byte-level tokenizer; pad token or not is the tokenizer's affair."""
    tokenizer = tokenizer or byte_level()
    torch.manual_seed(0)
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": None}
    model = hf.GPT2LMHeadModel(
        hf.GPT2Config(
            vocab_size=len(tokenizer), **{"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, **ends, **config}
        )
    )
    return stir(model, dtype), tokenizer

"""A tiny random text classifier with a word-level tokenizer, and texts for it."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

from looprop.evaluation.example import Task

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = "a the film is not very good bad dull great plot acting and but never always it was one of best worst".split()
TEXTS = [
    "the film is not very good",
    "a great plot and great acting",
    "it was never dull but never great",
    "one of the worst",
    "always the best acting and the best plot but a very bad film",
    "not good not bad",
]


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """Splits at spaces; [CLS] and [SEP] around."""
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(SPECIAL + WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **names)


def tiny_model(layers: int = 3, seed: int = 0) -> BertForSequenceClassification:
    """A random BERT whose attention is not flat."""
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(SPECIAL) + len(WORDS),
        hidden_size=16,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=64,
        num_labels=2,
        pad_token_id=0,
    )
    model = BertForSequenceClassification(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def save_tiny(folder: Path, *, layers: int = 3, seed: int = 0) -> Path:
    """The model and its tokenizer in a folder that `looprop.load` reads."""
    tiny_model(layers, seed).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def many_tasks(count: int) -> list[Task]:
    """Tasks of different lengths."""
    return [Task(f"t{i}", " and ".join(TEXTS[(i + j) % len(TEXTS)] for j in range(1 + i % 4))) for i in range(count)]

"""One tiny model with its tokenizer, made from a number: what a sequence of changes starts from."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch
import transformers as hf
from tests import tiny
from torch import Tensor, nn

WIDTH, CLASSES, SPARE = 16, 3, 6
LABELS = ("bad", "so-so", "good", "great", "fun")
SIZES = {"hidden_size": WIDTH, "num_attention_heads": 2, "intermediate_size": 24, "max_position_embeddings": 40}
Dice = np.random.Generator


class Gain(nn.Module):
    """Multiplies by things that no list of parameters holds: a number, a list, an array, a dictionary, a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.gains, self.table = 1.5, [1.0, 0.5], {"gain": 1.25}
        self.array = np.ones(WIDTH)
        self.plain = torch.ones(WIDTH, dtype=torch.float64)  # neither a parameter nor a buffer
        self.register_buffer("buffer", torch.full((WIDTH,), 0.75))
        self.register_buffer("unsaved", torch.ones(WIDTH), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """x by all of them."""
        gain = self.scale * self.gains[0] * self.table["gain"] * self.buffer * self.unsaved
        return x * (gain * torch.as_tensor(self.array).to(x) * self.plain.to(x))


class Own(nn.Module):
    """A classifier of one's own with attention, gains and dropout."""

    def __init__(self, words: int, drop: float) -> None:
        super().__init__()
        self.embedding, self.gain, self.drop = nn.Embedding(words, WIDTH), Gain(), nn.Dropout(drop)
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 24, drop, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.classifier = nn.Linear(WIDTH, CLASSES)

    def get_input_embeddings(self) -> nn.Module:
        """The table of words."""
        return self.embedding

    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, inputs_embeds: Tensor | None = None
    ) -> Tensor:
        """The logits (B, C)."""
        x = self.embedding(input_ids) if inputs_embeds is None else inputs_embeds
        padding = None if attention_mask is None else attention_mask == 0
        rows = self.encoder(self.gain(x), src_key_padding_mask=padding)
        return self.classifier(self.drop(rows[:, 0]))


class Wrapped(nn.Module):
    """Another module around the same model."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner, self.factor = inner, 1.0

    def get_input_embeddings(self) -> nn.Module:
        """Those of the model inside."""
        return self.inner.get_input_embeddings()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The logits by a factor."""
        output = self.inner(input_ids=input_ids, attention_mask=attention_mask)
        return getattr(output, "logits", output) * self.factor


def _config(kind: Any, words: int, drop: float, layers: int, **more: Any) -> Any:
    drops = {"hidden_dropout_prob": drop, "attention_probs_dropout_prob": drop}
    named = {"num_labels": CLASSES, "id2label": dict(enumerate(LABELS[:CLASSES]))}
    named["label2id"] = {label: i for i, label in named["id2label"].items()}
    return kind(**{"vocab_size": words, **SIZES, "num_hidden_layers": layers, **drops, **named, **more})


def _gpt2(words: int, drop: float, layers: int, **more: Any) -> Any:
    sizes = {"n_embd": WIDTH, "n_layer": layers, "n_head": 2, "n_positions": 64}
    drops = {"resid_pdrop": drop, "embd_pdrop": drop, "attn_pdrop": drop}
    return hf.GPT2Config(**{"vocab_size": words, **sizes, **drops, "bos_token_id": 0, "eos_token_id": 0, **more})


def _distilbert(words: int, drop: float, layers: int) -> Any:
    sizes = {"dim": WIDTH, "n_layers": layers, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": 40}
    return _config(hf.DistilBertConfig, words, drop, layers, **sizes, dropout=drop)


Make = Callable[[int, float, int], Any]
BERT = hf.BertConfig
FAMILIES: dict[str, tuple[str, str, Make]] = {  # kind of target, tokenizer, model
    "bert": ("class", "word", lambda w, p, n: hf.BertForSequenceClassification(_config(BERT, w, p, n))),
    "albert": (
        "class",
        "word",
        lambda w, p, n: hf.AlbertForSequenceClassification(_config(hf.AlbertConfig, w, p, n, embedding_size=8)),
    ),
    "distilbert": ("class", "word", lambda w, p, n: hf.DistilBertForSequenceClassification(_distilbert(w, p, n))),
    "own": ("class", "word", lambda w, p, n: Own(w, p)),
    "gpt2-classes": (
        "class",
        "byte",
        lambda w, p, n: hf.GPT2ForSequenceClassification(_gpt2(w, p, n, num_labels=CLASSES, pad_token_id=0)),
    ),
    "bert-tokens": ("tokens", "word", lambda w, p, n: hf.BertForTokenClassification(_config(BERT, w, p, n))),
    "gpt2": ("next", "byte", lambda w, p, n: hf.GPT2LMHeadModel(_gpt2(w, p, n))),
    "llama": (
        "next",
        "byte",
        lambda w, p, n: hf.LlamaForCausalLM(
            hf.LlamaConfig(vocab_size=w, **SIZES, num_hidden_layers=n, num_key_value_heads=1, attention_dropout=p)
        ),
    ),
}


@cache
def _tokenizer(kind: str) -> Any:
    made = tiny.wordpiece() if kind == "word" else tiny.byte_level()
    made.chat_template = tiny.CHAT if kind == "byte" else None
    return made


@dataclass
class World:
    """Modules by name (main, and later a copy or a wrapper), and what hangs on them."""

    family: str
    kind: str
    modules: dict[str, Any]
    tokenizer: Any
    shelf: dict[str, Any] = field(default_factory=dict)  # of changes: kept hooks, states, optimizers
    undo: list[Callable[[], Any]] = field(default_factory=list)

    def module(self, name: str) -> Any:
        """The module of that name; of one that is not there, the first."""
        return self.modules.get(name, self.modules["main"])

    def end(self) -> None:
        """Take back what outlives the model."""
        while self.undo:
            self.undo.pop()()


def family(seed: int) -> str:
    """The family of the model that a sequence starts from."""
    return str(np.random.default_rng([seed, 7]).choice([*FAMILIES, "bert", "gpt2"]))


def world(seed: int) -> World:
    """The model that a sequence starts from."""
    dice = np.random.default_rng([seed, 8])
    kind, tokens, make = FAMILIES[family(seed)]
    drop, layers, single = float(dice.choice([0.0, 0.1])), int(dice.integers(1, 3)), dice.random() < 0.3
    tokenizer = copy.deepcopy(_tokenizer(tokens))
    torch.manual_seed(seed)
    model = make(len(tokenizer) + SPARE, drop, layers)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.25)
    model.to(torch.float32 if single else torch.float64).eval()
    return World(family(seed), kind, {"main": model}, tokenizer)

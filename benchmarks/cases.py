"""The models and inputs of the bench, written for all environments to read."""

import shutil
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.environments import BENCH
from benchmarks.exchange import load_model, load_tokenizer, save_model, write_case, write_model

EXCHANGE = BENCH / "exchange"
VOCABULARY = 17_888
"""The size of the embedded tokenizer's, so that every model here can read texts."""


def embedded_model() -> Path:
    """The sentiment model of the package."""
    import looprop

    folder = EXCHANGE / "embedded"
    model = looprop.load().model
    names = (
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
        "max_position_embeddings",
        "layer_norm_eps",
    )
    config = {name: getattr(model.config, name) for name in names}
    save_model(
        folder, "bert", {**config, "vocab_size": VOCABULARY, "num_labels": 2, "pad_token_id": 0}, model.state_dict()
    )
    return _with_tokenizer(folder)


def bert(sizes: Mapping[str, int], *, positions: int = 512, name: str = "bert", spread: float = 0.02) -> Path:
    """A random BERT that reads the embedded tokenizer's ids."""
    config = {
        **sizes,
        "max_position_embeddings": positions,
        "vocab_size": VOCABULARY,
        "num_labels": 2,
        "pad_token_id": 0,
    }
    return _with_tokenizer(write_model(EXCHANGE / name, "bert", config, spread=spread))


def llama(sizes: Mapping[str, int], *, positions: int = 2048, name: str = "llama", spread: float = 0.02) -> Path:
    """A random Llama on the same ids."""
    config: dict[str, Any] = {
        **sizes,
        "num_key_value_heads": sizes["num_attention_heads"],
        "max_position_embeddings": positions,
    }
    config |= {"vocab_size": VOCABULARY, "rms_norm_eps": 1e-6, "tie_word_embeddings": False}
    return write_model(EXCHANGE / name, "llama", config, spread=spread)


def _with_tokenizer(folder: Path) -> Path:
    with resources.as_file(resources.files("looprop") / "assets" / "sentiment" / "tokenizer.json") as source:
        shutil.copy(source, folder / "tokenizer.json")
    return folder


def random_texts(model: Path, tokens: int, count: int = 1, *, seed: int = 0) -> Path:
    """Texts of whole words, each one token, so that a text has exactly so many tokens with its special ones."""
    tokenizer = load_tokenizer(EXCHANGE / "embedded")
    words = [word for word in tokenizer.get_vocab() if word.isascii() and word.isalpha() and len(word) > 2]
    words = sorted(word for word in words if len(tokenizer(word, add_special_tokens=False)["input_ids"]) == 1)
    draw = np.random.default_rng([seed, tokens])
    texts = [" ".join(draw.choice(words, tokens - 2)) for _ in range(count)]
    ids = [np.array(tokenizer(text)["input_ids"], dtype=np.int64) for text in texts]
    if any(len(of) != tokens for of in ids):
        raise RuntimeError(f"a text of {tokens} tokens was wanted, got {[len(of) for of in ids]}")
    return write_case(EXCHANGE / f"{model.name}-{tokens}x{count}", model, ids, texts, [1] * count)


def sentences(model: Path, texts: Sequence[str], name: str) -> Path:
    """Given texts, each with the class that the model predicts."""
    tokenizer, network = load_tokenizer(model), load_model(model)
    ids = [np.array(tokenizer(text)["input_ids"], dtype=np.int64) for text in texts]
    with torch.inference_mode():
        targets = [int(network(input_ids=torch.from_numpy(of)[None]).logits.argmax()) for of in ids]
    return write_case(EXCHANGE / name, model, ids, texts, targets)

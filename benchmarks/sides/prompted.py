"""What the sides share where a language model answers a question about a context: the model and the texts.

The context is cut into sentences, the answer is given, and what is explained is its log-probability.
"""

from functools import lru_cache
from typing import Any

import torch

from benchmarks.prompts import ANSWER, MODEL, QUESTION, sentences

__all__ = ["ANSWER", "QUESTION", "chat", "forward_passes", "language_model", "length", "sentences"]


@lru_cache(maxsize=1)
def language_model(layers: int) -> tuple[Any, Any]:
    """SmolLM2-135M, cut to its first layers, with its tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if not MODEL.exists():
        raise FileNotFoundError("SmolLM2-135M is not in the cache of looprop")
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32, attn_implementation="sdpa").eval()
    model.model.layers = model.model.layers[:layers]
    model.config.num_hidden_layers = layers
    return model, AutoTokenizer.from_pretrained(MODEL)


def length(count: int) -> int:
    """How many tokens prompt and answer have; 0 where the tokenizer is not at hand."""
    from transformers import AutoTokenizer

    if not MODEL.exists():
        return 0
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    text = chat(tokenizer, " ".join(sentences(count))) + ANSWER
    return len(tokenizer(text, add_special_tokens=False)["input_ids"])


def chat(tokenizer: Any, context: str) -> str:
    """The user's turn with context and question, as the model's chat template writes it."""
    turn = [{"role": "user", "content": f"{context}\n\n{QUESTION}"}]
    text: str = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
    return text


def forward_passes(layers: int, count: int) -> Any:
    """One plain forward pass over prompt and answer, which is the unit."""
    model, tokenizer = language_model(layers)
    text = chat(tokenizer, " ".join(sentences(count))) + ANSWER
    ids = tokenizer(text, return_tensors="pt", add_special_tokens=False)["input_ids"]
    answered = len(tokenizer(ANSWER, add_special_tokens=False)["input_ids"])

    def run() -> list[Any]:
        with torch.inference_mode():
            logits = model(input_ids=ids, logits_to_keep=answered + 1, use_cache=False).logits
        return [logits[0, 0].numpy()]

    return run

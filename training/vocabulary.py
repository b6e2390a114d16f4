"""Pruning of a WordPiece vocabulary.

WordPiece takes the longest piece that fits, again and again. A smaller vocabulary that still holds all pieces of a text
therefore cuts that text in the same way: the longest piece that fits is still there, and no longer one was added.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import BertForSequenceClassification

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def relative_frequencies(tokenizer: Tokenizer, corpora: Sequence[Iterable[str]]) -> dict[str, float]:
    """For each piece the sum over corpora of its share of the pieces there, so that a small corpus counts as much as a
    large one.
    """
    shares: defaultdict[str, float] = defaultdict(float)
    for corpus in corpora:
        counts = Counter(
            piece
            for encoding in tokenizer.encode_batch(list(corpus), add_special_tokens=False)
            for piece in encoding.tokens
        )
        total = sum(counts.values())
        for piece, count in counts.items():
            shares[piece] += count / total
    return dict(shares)


def kept_pieces(vocabulary: dict[str, int], shares: dict[str, float], count: int) -> list[str]:
    """The `count` pieces with the largest shares, the special tokens, and all single characters with their ## forms; in
    the old order.
    """
    frequent = sorted(shares, key=lambda piece: (-shares[piece], vocabulary[piece]))[:count]
    single = [piece for piece in vocabulary if len(piece.removeprefix("##")) == 1]
    return sorted({*frequent, *single, *SPECIAL}, key=vocabulary.__getitem__)


def prune_tokenizer(source: Path, target: Path, kept: Sequence[str]) -> None:
    """Writes the tokenizer of `source` with the pieces of `kept` only, numbered in their order, without padding and
    truncation.
    """
    settings: dict[str, Any] = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    ids = {piece: i for i, piece in enumerate(kept)}
    settings["truncation"] = settings["padding"] = None
    settings["model"]["vocab"] = ids
    for token in settings["added_tokens"]:
        token["id"] = ids[token["content"]]
    for token in settings["post_processor"]["special_tokens"].values():
        token["ids"] = [ids[name] for name in token["tokens"]]
    target.mkdir(parents=True, exist_ok=True)
    (target / "tokenizer.json").write_text(json.dumps(settings, ensure_ascii=False, indent=0), encoding="utf-8")
    names = {f"{name.strip('[]').lower()}_token": name for name in SPECIAL}
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 512, **names}
    (target / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def prune_embeddings(model: BertForSequenceClassification, vocabulary: dict[str, int], kept: Sequence[str]) -> None:
    """Keeps the rows of the word embedding that belong to the kept pieces."""
    rows = torch.tensor([vocabulary[piece] for piece in kept])
    old = model.get_input_embeddings().weight.detach()
    embedding = torch.nn.Embedding(
        len(kept), old.shape[1], padding_idx=0
    )  # [PAD] has the smallest number in the base, too
    embedding.weight.data.copy_(old[rows])
    model.set_input_embeddings(embedding)
    model.config.vocab_size = len(kept)

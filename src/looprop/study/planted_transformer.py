"""A small Transformer whose weights are set by hand.

    embeddings of words and positions -> blocks (attention, then ReLU neurons, each added to the stream) -> [CLS]'s row
    -> the answer

The stream is made of named features, one dimension each, so that weights can be written down: which features a head
asks for and finds, what it copies, what a neuron reads and writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import torch
from torch import Tensor, nn

CLS, WORD, ANSWER = "[CLS]", "any word", "answer"
"""Features of every model: the read-out token, every other token, and what is read off in the end."""
LENGTH = 16
"""Tokens at the most."""
LABELS = {0: "no", 1: "yes"}

Weights = Mapping[str, float]
"""By the name of a feature."""


@dataclass(frozen=True)
class Head:
    """One attention head. score of a key = sum over pairs of (asks . row of the query) (finds . row of the key).

    copies: what is read off the rows that it looks at. writes: the feature that gets it.
    """

    asks: tuple[Weights, ...]
    finds: tuple[Weights, ...]
    copies: Weights
    writes: str


@dataclass(frozen=True)
class Neuron:
    """relu(reads . row + bias), times `writes`, is added to the row."""

    reads: Weights
    writes: Weights
    bias: float = 0.0


@dataclass(frozen=True)
class Block:
    """One layer."""

    heads: tuple[Head, ...]
    neurons: tuple[Neuron, ...] = ()


@dataclass(frozen=True)
class Circuit:
    """A model on paper.

    words: the words that mean something, with their features; every other word only takes up room.
    sides: what is read off in the end: the answer, or two features whose direction is the answer (they are normalised,
        so that only which of them is larger counts, not by how much).
    """

    words: Mapping[str, Weights]
    blocks: tuple[Block, ...]
    sides: tuple[str, ...] = (ANSWER,)

    @property
    def features(self) -> tuple[str, ...]:
        """The dimensions of the stream."""
        named = [feature for weights in self.words.values() for feature in weights]
        for block in self.blocks:
            named += [head.writes for head in block.heads]
            named += [feature for neuron in block.neurons for feature in neuron.writes]
        return tuple(dict.fromkeys((CLS, WORD, *named, *self.sides, *map(position, range(LENGTH)))))


def position(number: int) -> str:
    """The feature of a position."""
    return f"position {number}"


class HandSetTransformer(nn.Module):
    """A circuit as a module that looprop loads like any other text classifier.

    tokens: the vocabulary; [CLS] is a word of its own, what the circuit does not know is any word.
    """

    def __init__(self, circuit: Circuit, tokens: Sequence[str]) -> None:
        super().__init__()
        features = circuit.features
        self.config = SimpleNamespace(id2label=LABELS, pad_token_id=0, max_position_embeddings=LENGTH)
        words = [{CLS: 1.0} if token == CLS else {WORD: 1.0, **circuit.words.get(token, {})} for token in tokens]
        self.word_embeddings = _table(words, features)
        self.position_embeddings = _table([{position(number): 1.0} for number in range(LENGTH)], features)
        self.blocks = nn.ModuleList(_BlockModule(block, features) for block in circuit.blocks)
        self.read_off = _linear([{side: 1.0} for side in circuit.sides], features)
        two = len(circuit.sides) == 2
        # Of two sides one is zero: normalised to a mean square of 1 the other is the root of 2.
        self.norm = nn.RMSNorm(2, eps=1e-18, elementwise_affine=False, dtype=torch.float64) if two else nn.Identity()
        scale = 0.5**0.5 if two else 1.0
        self.classifier = nn.Linear(len(circuit.sides), len(LABELS), bias=False, dtype=torch.float64)
        with torch.no_grad():
            self.classifier.weight.zero_()
            self.classifier.weight[:, 0] = torch.tensor([-scale, scale], dtype=torch.float64)

    def get_input_embeddings(self) -> nn.Embedding:
        """The table of words."""
        return self.word_embeddings

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None
    ) -> Tensor:
        """Tokens (B, T) -> logits (B, 2) of "no" and "yes", one the negative of the other."""
        if position_ids is None:
            position_ids = torch.arange(input_ids.shape[1], device=input_ids.device)[None]
        stream = self.word_embeddings(input_ids) + self.position_embeddings(position_ids)  # (B, T, D)
        for block in self.blocks:
            stream = block(stream, attention_mask)
        logits: Tensor = self.classifier(self.norm(self.read_off(stream[:, 0])))
        return logits


class _BlockModule(nn.Module):
    def __init__(self, block: Block, features: Sequence[str]) -> None:
        super().__init__()
        self.heads, self.width = len(block.heads), max(len(head.asks) for head in block.heads)
        self.query = _linear(self._padded([head.asks for head in block.heads]), features)
        self.key = _linear(self._padded([head.finds for head in block.heads]), features)
        self.value = _linear(self._padded([(head.copies,) for head in block.heads]), features)
        self.output = nn.Linear(self.heads * self.width, len(features), bias=False, dtype=torch.float64)
        with torch.no_grad():
            self.output.weight.zero_()
            for number, head in enumerate(block.heads):
                self.output.weight[features.index(head.writes), number * self.width] = 1.0
        self.reads = _linear([neuron.reads for neuron in block.neurons], features) if block.neurons else None
        if self.reads is not None:
            self.reads.bias = nn.Parameter(torch.tensor([n.bias for n in block.neurons], dtype=torch.float64))
            self.writes = nn.Linear(len(block.neurons), len(features), bias=False, dtype=torch.float64)
            with torch.no_grad():
                self.writes.weight.copy_(_matrix([neuron.writes for neuron in block.neurons], features).T)

    def forward(self, stream: Tensor, attention_mask: Tensor | None) -> Tensor:
        q, k, v = (self._split(part(stream)) for part in (self.query, self.key, self.value))  # (B, H, T, W)
        allowed = None if attention_mask is None else attention_mask.bool()[:, None, None, :]  # (B, 1, 1, T)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=1.0)
        stream = stream + self.output(mixed.transpose(1, 2).flatten(2))
        if self.reads is not None:
            stream = stream + self.writes(torch.relu(self.reads(stream)))
        return stream

    def _padded(self, of_heads: Sequence[tuple[Weights, ...]]) -> list[Weights]:
        return [weights for own in of_heads for weights in (*own, *({},) * (self.width - len(own)))]

    def _split(self, rows: Tensor) -> Tensor:
        return rows.reshape(*rows.shape[:2], self.heads, self.width).transpose(1, 2)


def _matrix(rows: Sequence[Weights], features: Sequence[str]) -> Tensor:
    """Named weights as numbers (rows, D); a feature that there is not raises."""
    matrix = torch.zeros(len(rows), len(features), dtype=torch.float64)
    for number, weights in enumerate(rows):
        for feature, weight in weights.items():
            matrix[number, features.index(feature)] = weight
    return matrix


def _table(rows: Sequence[Weights], features: Sequence[str]) -> nn.Embedding:
    return nn.Embedding(len(rows), len(features), _weight=_matrix(rows, features))


def _linear(rows: Sequence[Weights], features: Sequence[str]) -> nn.Linear:
    layer = nn.Linear(len(features), len(rows), bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(_matrix(rows, features))
    return layer

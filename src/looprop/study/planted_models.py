"""Planted models, small Transformers with weights set by hand: the effect and share of every word are known.

    embeddings of words and positions -> blocks (attention, then ReLU neurons, each added to the stream) -> [CLS]'s row
    -> the answer

The stream is made of named features, one dimension each, so that weights can be written down: which features a head
asks for and finds, what it copies, what a neuron reads and writes. Attention is hard or flat on purpose. A hard head
finds its word wherever it stands and looks at [CLS], which says nothing, where the word is gone; a flat one counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import SimpleNamespace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from looprop.errors import UnknownNameError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


CLS, WORD, ANSWER = "[CLS]", "any word", "answer"
"""Features of every model: the read-out token, every other token, and what is read off in the end."""
LENGTH = 16
"""Tokens at the most."""
LABELS = {0: "no", 1: "yes"}

Weights = Mapping[str, float]
"""By the name of a feature."""


@dataclass(frozen=True)
class CircuitHead:
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
class Circuit:
    """A model on paper.

    words: the words that mean something, with their features; every other word only takes up room.
    layers: the heads of each, then its neurons.
    sides: what is read off in the end: the answer, or two features whose direction is the answer (they are normalised,
        so that only which of them is larger counts, not by how much).
    """

    words: Mapping[str, Weights]
    layers: tuple[Sequence[CircuitHead | Neuron], ...]
    sides: tuple[str, ...] = (ANSWER,)

    @property
    def features(self) -> tuple[str, ...]:
        """The dimensions of the stream."""
        named = [feature for weights in self.words.values() for feature in weights]
        for part in chain(*self.layers):
            named += [part.writes] if isinstance(part, CircuitHead) else part.writes
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
        self.blocks = nn.ModuleList(_BlockModule(parts, features) for parts in circuit.layers)
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
    def __init__(self, parts: Sequence[CircuitHead | Neuron], features: Sequence[str]) -> None:
        super().__init__()
        heads = [part for part in parts if isinstance(part, CircuitHead)]
        neurons = [part for part in parts if isinstance(part, Neuron)]
        self.heads, self.width = len(heads), max(len(head.asks) for head in heads)
        self.query = _linear(self._padded([head.asks for head in heads]), features)
        self.key = _linear(self._padded([head.finds for head in heads]), features)
        self.value = _linear(self._padded([(head.copies,) for head in heads]), features)
        self.output = _linear(self._padded([({head.writes: 1.0},) for head in heads]), features, writes=True)
        self.reads = _linear([neuron.reads for neuron in neurons], features) if neurons else None
        if self.reads is not None:
            self.reads.bias = nn.Parameter(torch.tensor([n.bias for n in neurons], dtype=torch.float64))
            self.writes = _linear([neuron.writes for neuron in neurons], features, writes=True)

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


def _linear(rows: Sequence[Weights], features: Sequence[str], *, writes: bool = False) -> nn.Linear:
    """A layer that reads features, or writes them."""
    matrix = _matrix(rows, features).T if writes else _matrix(rows, features)
    layer = nn.Linear(matrix.shape[1], matrix.shape[0], bias=False, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(matrix)
    return layer


SHARP = 24.0
"""The score of what a hard head looks for, above that of [CLS]: what it does not look for has less than 1e-10."""
SPECIAL = ("[PAD]", "[UNK]", CLS, "[MASK]")


def seen(word: str) -> str:
    """The feature that says that a word was found."""
    return f"{word} was seen"


def _finds(feature: str, writes: str) -> CircuitHead:
    """Is there a word with this feature? Above [CLS] what has it, below what has not."""
    return CircuitHead(asks=({CLS: SHARP},), finds=({feature: 2.0, WORD: -1.0},), copies={feature: 1.0}, writes=writes)


def _detectors(*words: str) -> tuple[CircuitHead, ...]:
    return tuple(_finds(word, seen(word)) for word in words)


def _own(*words: str) -> dict[str, dict[str, float]]:
    """Every word has a feature of its own."""
    return {word: {word: 1.0} for word in words}


def _above(words: tuple[str, ...], least: float, weight: float) -> Neuron:
    """How many of the words there are, less `least`."""
    return Neuron(reads={seen(word): 1.0 for word in words}, bias=-least, writes={ANSWER: weight})


_PAIR, _ANY, _NEGATION = ("key", "lock"), ("tea", "coffee", "juice"), ("not", "good")
_SINK = {CLS: SHARP, WORD: SHARP}
_THIS = [{position(number): 1.0} for number in range(LENGTH - 1)]
_NEXT = [{position(number + 1): 2 * SHARP} for number in range(LENGTH - 1)]

CIRCUITS: dict[str, Circuit] = {
    # Both words, or nothing.
    "and": Circuit(_own(*_PAIR), ([*_detectors(*_PAIR), _above(_PAIR, 1.0, 1.0)],)),
    # One of three is enough, and more are no more.
    "or": Circuit(_own(*_ANY), ([*_detectors(*_ANY), _above(_ANY, 0.0, 1.0), _above(_ANY, 1.0, -1.0)],)),
    # The same, but by one head that shares its attention between words that mean the same.
    "redundant": Circuit({word: {"praise": 1.0} for word in ("superb", "wonderful")}, ([_finds("praise", ANSWER)],)),
    # "good" is worth 1, "not good" is worth -1, "not" alone nothing.
    "negation": Circuit(
        _own(*_NEGATION),
        ([*_detectors(*_NEGATION), _above(("good",), 0.0, 1.0), _above(_NEGATION, 1.0, -2.0)],),
    ),
    # The needle draws all attention and says 1; where it is gone, the straw is looked at and says -1.
    "needle": Circuit(
        _own("needle", "straw"),
        ([CircuitHead(({CLS: SHARP},), ({"needle": 1.0, CLS: -1.0},), {"needle": 1.0, "straw": -1.0}, ANSWER)],),
    ),
    # Flat attention takes the mean of the votes; normalised, only its sign is left.
    "majority": Circuit(
        {"yes": {"vote": 1.0}, "no": {"vote": -1.0}},
        (
            [
                CircuitHead(({},), ({},), {"vote": 1.0}, "mean vote"),
                *(Neuron({"mean vote": sign}, {side: 1.0}) for side, sign in (("for", 1.0), ("against", -1.0))),
            ],
        ),
        sides=("for", "against"),
    ),
    # First every word looks at the one before it, then [CLS] copies the word that comes after "colour".
    "copying": Circuit(
        {"colour": {"colour": 1.0}, "red": {"says": 1.0}, "blue": {"says": -1.0}},
        (
            [CircuitHead((*_NEXT, _SINK), (*_THIS, {CLS: 1.0}), {"colour": 1.0}, "after colour")],
            [CircuitHead(({CLS: SHARP},), ({"after colour": 2.0, WORD: -1.0},), {"says": 1.0}, ANSWER)],
        ),
    ),
}


def planted_model(name: str) -> "tuple[HandSetTransformer, PreTrainedTokenizerFast]":
    """A planted model and its tokenizer, as `looprop.load` takes them: "and", "or", "redundant", "negation", "needle",
    "majority", "copying".
    """
    if name not in CIRCUITS:
        raise UnknownNameError("planted model", name, CIRCUITS)
    circuit = CIRCUITS[name]
    tokens = (*SPECIAL, *circuit.words)
    return HandSetTransformer(circuit, tokens).eval(), _tokenizer(tokens)


def _tokenizer(tokens: tuple[str, ...]) -> "PreTrainedTokenizerFast":
    """Words and marks in small letters behind [CLS]; a word that no circuit knows is [UNK], and only takes up room."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({token: i for i, token in enumerate(tokens)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A", special_tokens=[(CLS, tokens.index(CLS))]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "mask_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=LENGTH, **names)

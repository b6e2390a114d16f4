"""What all odd Transformers share: tokens, layers, and places for what is odd about each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

WIDTH, HEADS, CLASSES, LONGEST = 16, 2, 3, 64
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [f"w{i}" for i in range(40)]
VOCABULARY = [*SPECIAL, *WORDS]


def tokenizer() -> Any:
    """One token a word, [CLS] before and [SEP] after."""
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=made, **names)


@dataclass
class Site:
    """What an attention reads: heads (B, H, T, d), which keys may be read (B, T), and parameters of its own."""

    query: Tensor
    key: Tensor
    value: Tensor
    read: Tensor
    own: nn.ParameterDict

    @property
    def scale(self) -> float:
        return float(self.query.shape[-1] ** -0.5)

    @property
    def scores(self) -> Tensor:
        return self.query @ self.key.transpose(-1, -2) * self.scale

    @property
    def barred(self) -> Tensor:
        """(B, 1, 1, T)"""
        return ~self.read[:, None, None, :]


Attend = Callable[[Site], Tensor]
Pool = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(rows (B, T, D), read (B, T), ids (B, T)) -> (B, D)."""
Twist = Callable[["Odd", Tensor, Tensor], Tensor]
"""Something odd between layers: (model, rows, read) -> rows."""


class Odd(nn.Module):
    """A small Transformer classifier with places for an odd attention, pooling, twist and mask."""

    def __init__(self, attend: Attend, pool: Pool, twist: Twist | None = None, *, layers: int = 2) -> None:
        super().__init__()
        self.attend, self.pool, self.twist = attend, pool, twist
        self.embedding = nn.Embedding(len(VOCABULARY), WIDTH)
        self.positions = nn.Embedding(LONGEST, WIDTH)
        self.projections = nn.ModuleList(nn.Linear(WIDTH, 4 * WIDTH) for _ in range(layers))
        self.outputs = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(layers))
        self.inner = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers))
        self.other = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)
        size = WIDTH // HEADS
        self.own = nn.ParameterDict(
            {
                "key": nn.Parameter(torch.randn(HEADS, 2, size)),
                "value": nn.Parameter(torch.randn(HEADS, 2, size)),
                "latent": nn.Parameter(torch.randn(HEADS, 3, size)),
                "mixing": nn.Parameter(torch.randn(HEADS, HEADS)),
                "distance": nn.Parameter(torch.randn(HEADS, 2 * LONGEST)),
            }
        )

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def where(self, input_ids: Tensor, read: Tensor) -> Tensor:
        """The numbers of the positions."""
        return torch.arange(input_ids.shape[1], device=input_ids.device)[None]

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None
    ) -> Tensor:
        """Logits (B, C)."""
        read = torch.ones_like(input_ids).bool() if attention_mask is None else attention_mask.bool()
        places = self.where(input_ids, read) if position_ids is None else position_ids
        x = self.embedding(input_ids) + self.positions(places)
        for layer in range(len(self.projections)):
            x = self.block(layer, x, read)
            if self.twist is not None:
                x = self.twist(self, x, read)
        return self.head(self.pool(x, read, input_ids))

    def block(self, layer: int, x: Tensor, read: Tensor) -> Tensor:
        """Attention and a small feed-forward layer."""
        query, key, value, _ = (
            part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.projections[layer](x).chunk(4, -1)
        )
        mixed = self.attend(Site(query, key, value, read, self.own))
        x = self.norms[layer](x + self.outputs[layer](mixed.transpose(1, 2).flatten(2)))
        return x + torch.nn.functional.gelu(self.inner[layer](x))


def stirred(model: nn.Module, seed: int) -> nn.Module:
    """Random parameters, large enough that attention is not flat."""
    made = torch.Generator().manual_seed(seed)
    model = model.double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=made, dtype=torch.float64) * 0.3)
    return model

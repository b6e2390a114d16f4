"""The parts of the bench, one file each: a function from a team and sizes to rows of plain data."""

from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Sizes:
    """How large everything is: as in the issue, or small enough to see in a few minutes whether all of it runs.

    per_length: for each length how many leave-one-out variants, how many states of curves and how many steps of
        integrated gradients are a fair sample.
    together: so many positions of a batch are timed, as many as run at a time.
    """

    quick: bool
    layers: int
    width: int
    decoder_width: int
    per_length: dict[int, tuple[int, int, int]]
    batch: int
    together: int
    repeats: int
    seconds: float
    texts: int
    sentences: int
    blocks: int
    growth_lengths: tuple[int, ...]
    growth_layers: tuple[int, ...]
    examples: tuple[int, ...]
    set_texts: int
    prompt_layers: int
    prompt_sentences: int
    context_sentences: int

    @property
    def bert(self) -> dict[str, int]:
        """Sizes of the encoder."""
        heads = self.width // 64
        return {
            "hidden_size": self.width,
            "num_hidden_layers": self.layers,
            "num_attention_heads": heads,
            "intermediate_size": 4 * self.width,
        }

    @property
    def llama(self) -> dict[str, int]:
        """Sizes of the decoder."""
        width = self.decoder_width
        return {
            "hidden_size": width,
            "num_hidden_layers": self.layers,
            "num_attention_heads": width // 64,
            "intermediate_size": width * 11 // 4,
        }


FULL = Sizes(
    quick=False,
    layers=12,
    width=768,
    decoder_width=512,
    per_length={8: (8, 14, 50), 32: (16, 20, 16), 128: (8, 10, 4), 512: (8, 4, 2)},
    batch=16,
    together=2048,
    repeats=7,
    seconds=10.0,
    texts=8,
    sentences=100,
    blocks=5,
    growth_lengths=(8, 32, 128, 512, 1024),
    growth_layers=(2, 8, 24),
    examples=(100, 1000, 3000),
    set_texts=64,
    prompt_layers=4,
    prompt_sentences=8,
    context_sentences=40,
)
QUICK = Sizes(
    quick=True,
    layers=2,
    width=128,
    decoder_width=128,
    per_length={8: (8, 14, 20), 32: (8, 12, 8)},
    batch=4,
    together=64,
    repeats=3,
    seconds=4.0,
    texts=4,
    sentences=6,
    blocks=2,
    growth_lengths=(8, 32, 128),
    growth_layers=(2, 4),
    examples=(50, 200),
    set_texts=4,
    prompt_layers=2,
    prompt_sentences=2,
    context_sentences=4,
)

__all__ = ["FULL", "QUICK", "Row", "Sizes"]

"""The odd models by name, and those of the tests' zoo."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from tests import zoo
from torch import Tensor, nn

from attacks.models.attentions import ATTENTIONS, fused, written_out
from attacks.models.poolings import POOLINGS, TWISTS, first, mean
from attacks.models.skeleton import Odd, stirred


class Unplaced(Odd):
    """Numbers its positions itself and takes no others."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return super().forward(input_ids, attention_mask)


class CountedPositions(Unplaced):
    """Positions are counted over what may be read."""

    def where(self, input_ids: Tensor, read: Tensor) -> Tensor:
        return (read.long().cumsum(1) - 1).clamp(min=0)


class BackwardPositions(Unplaced):
    """Positions are counted from the end."""

    def where(self, input_ids: Tensor, read: Tensor) -> Tensor:
        return torch.arange(input_ids.shape[1] - 1, -1, -1)[None]


class OneNumber(Unplaced):
    """Answers with one number per text."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return super().forward(input_ids, attention_mask)[:, 1]


class Wrapped(nn.Module):
    """Another model behind **kwargs."""

    def __init__(self, inner: Odd) -> None:
        super().__init__()
        self.inner = inner

    def get_input_embeddings(self) -> nn.Module:
        return self.inner.embedding

    def forward(self, **kwargs: Any) -> Tensor:
        return self.inner(kwargs["input_ids"], kwargs.get("attention_mask"))


class DroppedMask(Wrapped):
    """A wrapper that loses the mask."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return self.inner(input_ids)


class NotesMask(Unplaced):
    """Takes the mask for granted, and fails on one that bars anything."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        if attention_mask is not None and len(input_ids) > 1 and not bool(attention_mask.all()):
            raise RuntimeError("this model takes no padding")
        return super().forward(input_ids, attention_mask)


def _named() -> dict[str, Callable[[], nn.Module]]:
    made: dict[str, Callable[[], nn.Module]] = {}
    for name, attend in ATTENTIONS.items():
        pool = first if len(made) % 2 else mean
        made[f"attention {name}"] = lambda attend=attend, pool=pool: Odd(attend, pool)
    for name, pool in POOLINGS.items():
        made[f"pooling {name}"] = lambda pool=pool: Odd(fused, pool)
    for name, twist in TWISTS.items():
        made[f"twist {name}"] = lambda twist=twist: Odd(fused, first, twist)
        made[f"twist {name}, mean"] = lambda twist=twist: Unplaced(written_out, mean, twist)
    made |= {
        "positions counted": lambda: CountedPositions(fused, first),
        "positions counted, mean": lambda: CountedPositions(written_out, mean),
        "positions from the end": lambda: BackwardPositions(fused, first),
        "one number": lambda: OneNumber(fused, mean),
        "wrapped": lambda: Wrapped(Odd(fused, first)),
        "a lost mask": lambda: DroppedMask(Odd(fused, first)),
        "no padding": lambda: NotesMask(fused, first),
        "one layer": lambda: Odd(fused, mean, layers=1),
        "no layer": lambda: Odd(fused, mean, layers=0),
        "four layers": lambda: Odd(written_out, first, layers=4),
    }
    return made


NAMED = _named()
ZOO = tuple(zoo.TEXT)


def mixed(seed: int) -> tuple[str, nn.Module]:
    """An attention, a pooling and a twist, by dice."""
    dice = np.random.default_rng(seed)
    parts = [str(dice.choice(list(table))) for table in (ATTENTIONS, POOLINGS, TWISTS)]
    kind = Odd if dice.integers(2) else Unplaced
    made = kind(ATTENTIONS[parts[0]], POOLINGS[parts[1]], TWISTS[parts[2]], layers=int(dice.integers(1, 4)))
    return " + ".join(parts), made


def family(seed: int) -> tuple[str, nn.Module, bool]:
    """Name, model and whether it is a language model of the zoo. Every family once, then mixtures, and so on."""
    names = [*NAMED, *ZOO]
    at = seed % (2 * len(names))
    torch.manual_seed(seed)
    if at >= len(names):
        name, model = mixed(seed)
        return name, stirred(model, seed), False
    name = names[at]
    if name in ZOO:
        return name, zoo.build(name, seed), name in zoo.DECODERS
    return name, stirred(NAMED[name](), seed), False

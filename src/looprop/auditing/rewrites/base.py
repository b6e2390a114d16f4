"""What a rewrite is: a change to a model that leaves its function as it is."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import ClassVar

import torch
from torch import Tensor, nn

from looprop.auditing.rewrites.catalogue import CATALOGUE, check_rewrites
from looprop.auditing.rewrites.changes import Changes
from looprop.auditing.rewrites.observing import Observation

SEED = 0


@dataclass
class Places:
    """What a rewrite did: the places that it changed, and what it met and does not support, with the reason."""

    changed: list[str] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)

    def leave(self, name: str, reason: str) -> None:
        """Note something that is left as it is."""
        self.unsupported.append(f"{name}: {reason}")


@dataclass(frozen=True)
class Model:
    """A model to be rewritten.

    run: one forward pass, in which rewrites see what the model computes. observed: who reads whom, found in such a
        pass.
    sites: how many attention sites the engine counts; None where it cannot tell.
    """

    module: nn.Module
    run: Callable[[], None]
    observed: Observation
    sites: int | None = None

    def generator(self) -> torch.Generator:
        """The random numbers of rewrites: always the same."""
        return torch.Generator().manual_seed(SEED)


class Rewrite(ABC):
    """A rewrite. `apply` changes whatever it finds through `changes` and says what it did; the caller undoes it."""

    name: ClassVar[str]
    summary: ClassVar[str] = ""

    @abstractmethod
    def apply(self, model: Model, changes: Changes) -> Places:
        """Change the model."""


def make_rewrites(rewrites: Sequence[str | Rewrite] | None) -> list[Rewrite]:
    """Rewrites from their names; None gives all."""
    chosen = list(CATALOGUE) if rewrites is None else list(rewrites)
    found: list[Rewrite] = []
    for rewrite in chosen:
        if isinstance(rewrite, Rewrite):
            found.append(rewrite)
        else:
            entry = CATALOGUE[check_rewrites([rewrite])[0]]
            found.append(getattr(import_module(f"looprop.auditing.rewrites.{entry.module}"), entry.attribute)())
    return found


def well_conditioned(size: int, generator: torch.Generator, like: Tensor) -> tuple[Tensor, Tensor]:
    """A random invertible matrix, singular values between 1/2 and 2, and its inverse."""
    draws = torch.randn(2, size, size, generator=generator, dtype=torch.float64)
    left, right = (torch.linalg.qr(draw)[0] for draw in draws)
    scale = torch.exp2(2 * torch.rand(size, generator=generator, dtype=torch.float64) - 1)
    matrix, inverse = left * scale @ right, right.T / scale @ left.T
    return matrix.to(like), inverse.to(like)

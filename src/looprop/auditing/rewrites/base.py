"""The base of rewrites: changes to a model that leave its function as it is.

A rewrite changes weights or forward functions through `changes.Changes`, or the calls of a forward pass through a mode
(`modes.py`). It may be wrong about a model, since it goes by names and by what it sees in one pass: the audit proves
every rewrite on its inputs, and refuses it where logits or gradients come out otherwise.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import ClassVar

import torch
from torch import Tensor, nn

from looprop.auditing.catalogue import CATALOGUE, check_rewrites
from looprop.auditing.rewrites.changes import Changes
from looprop.auditing.rewrites.observing import Observation

SEED = 0


@dataclass
class Places:
    """The places that a rewrite changed, and those that it met and does not support, with the reason."""

    changed: list[str] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)

    def leave(self, name: str, reason: str) -> None:
        """Note something that is left as it is."""
        self.unsupported.append(f"{name}: {reason}")


@dataclass(frozen=True)
class Model:
    """A model to be rewritten.

    run: one forward pass, in which rewrites see what the model computes. observed: who reads whom, seen in such a pass.
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
    """A rewrite. `apply` changes the model through `changes` and returns the places; the caller undoes it."""

    name: ClassVar[str]
    summary: ClassVar[str] = ""

    @abstractmethod
    def apply(self, model: Model, changes: Changes) -> Places:
        """Change the model."""


def make_rewrites(rewrites: Sequence[str | Rewrite] | None) -> list[Rewrite]:
    """Make rewrites from their names; None gives all."""
    chosen = list(CATALOGUE) if rewrites is None else rewrites
    return [rewrite if isinstance(rewrite, Rewrite) else _rewrite_named(rewrite) for rewrite in chosen]


def _rewrite_named(name: str) -> Rewrite:
    entry = CATALOGUE[check_rewrites([name])[0]]
    file, attribute = entry.place.split(".")
    rewrite: Rewrite = getattr(import_module(f"looprop.auditing.rewrites.{file}"), attribute)()
    return rewrite


def well_conditioned(size: int, generator: torch.Generator, like: Tensor) -> tuple[Tensor, Tensor]:
    """A random invertible matrix, singular values between 1/2 and 2, and its inverse."""
    draws = torch.randn(2, size, size, generator=generator, dtype=torch.float64)
    left, right = (torch.linalg.qr(draw)[0] for draw in draws)
    scale = torch.exp2(2 * torch.rand(size, generator=generator, dtype=torch.float64) - 1)
    matrix, inverse = left * scale @ right, right.T / scale @ left.T
    return matrix.to(like), inverse.to(like)

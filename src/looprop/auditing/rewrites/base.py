"""The base of rewrites: changes to a model that leave its function as it is, and that are undone exactly.

A rewrite changes weights or forward functions through `Changes`, or the calls of a forward pass through a mode
(`calls.py`). It may be wrong about a model, since it goes by names and by what it sees in one pass: the audit proves
every rewrite on its inputs, and refuses it where logits or gradients come out otherwise.

The original tensors are put aside and put back, never computed back. A module keeps its parameters in `_parameters` and
finds its `forward` on itself before it looks at its class. Both are dictionaries of one object, so that an entry can be
exchanged without a trace on the class, and put back as it was.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from looprop.auditing.catalogue import CATALOGUE, check_rewrites
from looprop.auditing.rewrites.observing import Observation
from looprop.intercept.mode import InterceptMode


class Changes:
    """The changes to a model, each with its inverse.

    Parameters are replaced by copies that may be edited; the original objects are never touched. Forward functions are
    replaced on single modules, never on classes.
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._copies: dict[tuple[int, str], nn.Parameter] = {}

    def edit(self, module: nn.Module, name: str) -> Tensor:
        """The data of a copy that now stands in the parameter's place: edit it in place."""
        key = (id(module), name)
        if key not in self._copies:
            self._copies[key] = self.replace(module, name, module.get_parameter(name).detach().clone())
        return self._copies[key].data

    def replace(self, module: nn.Module, name: str, value: Tensor) -> nn.Parameter:
        """A new parameter in the place of an old one, which may have another shape."""
        original = module.get_parameter(name)
        new = nn.Parameter(value.to(original.dtype), requires_grad=original.requires_grad)
        module._parameters[name] = new
        self._undo.append(lambda: module._parameters.__setitem__(name, original))
        return new

    def set_forward(self, module: nn.Module, forward: Callable[..., Any]) -> None:
        """Another forward function for this one module."""
        before = module.__dict__.get("forward")
        module.__dict__["forward"] = forward

        def undo() -> None:
            if before is None:
                module.__dict__.pop("forward", None)
            else:
                module.__dict__["forward"] = before

        self._undo.append(undo)

    def run_under(self, model: nn.Module, make_mode: Callable[[], InterceptMode]) -> None:
        """Every forward pass of the model runs under a mode of its own.

        The mode is entered inside `forward`, so that it stands before modes that are on already: what it makes of a
        call is what the rules of relevance get to see.
        """
        forward = model.forward

        def run(*args: Any, **kwargs: Any) -> Any:
            with make_mode():
                return forward(*args, **kwargs)

        self.set_forward(model, run)

    def then(self, undo: Callable[[], None]) -> None:
        """Something else to be undone."""
        self._undo.append(undo)

    def undo(self) -> None:
        """Put everything back, last change first."""
        while self._undo:
            self._undo.pop()()


@contextmanager
def undone() -> Iterator[Changes]:
    """Changes that hold inside the block."""
    changes = Changes()
    try:
        yield changes
    finally:
        changes.undo()


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
    """One line; that of a rewrite of looprop stands in the catalogue."""

    def __init_subclass__(cls) -> None:
        if not cls.summary and (entry := CATALOGUE.get(getattr(cls, "name", ""))):
            cls.summary = entry.summary

    @abstractmethod
    def apply(self, model: Model, changes: Changes) -> Places:
        """Change the model."""


def make_rewrites(rewrites: Sequence[str | Rewrite] | None) -> list[Rewrite]:
    """Make rewrites from their names; None gives all."""
    chosen: list[Rewrite] = []
    for one in CATALOGUE if rewrites is None else rewrites:
        if not isinstance(one, Rewrite):
            file, name = CATALOGUE[check_rewrites([one])[0]].place.split(".")
            one = getattr(import_module(f"looprop.auditing.rewrites.{file}"), name)()
        chosen.append(one)
    return chosen


def well_conditioned(size: int, generator: torch.Generator, like: Tensor) -> tuple[Tensor, Tensor]:
    """A random invertible matrix, singular values between 1/2 and 2, and its inverse."""
    draws = torch.randn(2, size, size, generator=generator, dtype=torch.float64)
    left, right = (torch.linalg.qr(draw)[0] for draw in draws)
    scale = torch.exp2(2 * torch.rand(size, generator=generator, dtype=torch.float64) - 1)
    matrix, inverse = left * scale @ right, right.T / scale @ left.T
    return matrix.to(like), inverse.to(like)

"""What kind of program a forward pass is: which operations it runs, and whether values decide about its way.

What is proven of a model on one input is used on others only where the same program runs on both, and where no value
that differs between them chooses what is computed.
"""

from collections.abc import Collection, Iterable
from typing import Any

import torch
from torch import Tensor

from looprop.intercept.mode import InterceptMode

# Operations that make a choice among what they are given: among positions it depends on which of them are there.
# Routers choose experts, row by row.
_SELECTING = frozenset("topk sort argsort kthvalue".split())
# Operations that make a choice of the values they are given.
_DECIDING = frozenset(
    "gt lt ge le eq ne greater less greater_equal less_equal equal not_equal argmax argmin max min amax amin maximum "
    "minimum sign heaviside isclose nonzero item tolist bool int any all median mode unique bucketize searchsorted "
    "multinomial bernoulli round floor ceil trunc".split()
)
# What token ids may go through and still only say which row of a table is looked up.
_PASSING = frozenset(
    "view reshape to long int clone contiguous expand unsqueeze squeeze flatten size dim numel detach type transpose t "
    "permute getitem".split()
)
# Larger numbers in an index are lengths, which differ between inputs of one program.
_SMALL = 2


def _mark(index: Any) -> str:
    """An index as part of a program's name: small constants by their value, everything else by its kind."""
    if isinstance(index, tuple):
        return ",".join(map(_mark, index))
    if isinstance(index, slice):
        return f"{_mark(index.start)}:{_mark(index.stop)}"
    if index is None or isinstance(index, int):
        return str(index) if index is None or abs(index) <= _SMALL else "n"
    return type(index).__name__


class PathMode(InterceptMode):
    """Notes the sequence of operations of a forward pass as one number: two inputs that a model takes the same way
    give the same.
    """

    path = 0

    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The model's own call."""
        if not name.startswith("get:"):
            self.path = hash((self.path, f"getitem {_mark(args[1])}" if name == "getitem" else name))
        return function(*args, **kwargs)


class ProgramMode(InterceptMode):
    """Notes whether activations decide about what is computed, and whether token ids are read for more than look-ups.

    It runs where gradients are on: what requires one depends on the input, or on parameters alone.
    """

    def __init__(self, ids: Iterable[Tensor], table: Tensor | None) -> None:
        super().__init__()
        self.decides = self.reads_ids = False
        self.table, self._ids = table, list(ids)
        self.length = self._ids[0].shape[-1] if self._ids else None

    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The model's own call; the look-up that is explained requires a gradient, also in a frozen model."""
        if name in _DECIDING and any(isinstance(a, Tensor) and a.requires_grad for a in args):
            self.decides = True
        if name in _SELECTING and isinstance(args[0], Tensor) and args[0].shape[-1:] == (self.length,):
            self.decides = True
        out = function(*args, **kwargs)
        if name == "embedding":
            return out.detach().requires_grad_() if args[1] is self.table and not out.requires_grad else out
        if not name.startswith("get:") and any(a is of for a in (*args, *kwargs.values()) for of in self._ids):
            if name not in _PASSING:
                self.reads_ids = True
            elif isinstance(out, Tensor):
                self._ids.append(out)
        return out


class PoisonMode(InterceptMode):
    """Makes all rows but some no numbers at the last attention site: who reads them answers with none.

    sites: how many there are. read: the rows that stay.
    """

    def __init__(self, sites: int, read: Collection[int]) -> None:
        super().__init__()
        self.left, self.read = sites, list(read)

    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The model's own call, poisoned if it is the last site."""
        out = function(*args, **kwargs)
        if name == "scaled_dot_product_attention" or (name == "softmax" and args[0].dim() == 4):
            self.left -= 1
            if self.left == 0:
                poisoned = torch.full_like(out, torch.nan)
                poisoned[..., self.read, :] = out[..., self.read, :]
                return poisoned
        return out

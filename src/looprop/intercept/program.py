"""What kind of program a forward pass is: which operations it runs, and whether values decide about its way.

What is proven of a model on one input is used on others only where the same program runs on both, and where no value
that differs between them chooses what is computed.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
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
    "minimum sign heaviside isclose nonzero any all median mode unique bucketize searchsorted multinomial bernoulli "
    "round floor ceil trunc".split()
)
# Operations that hand values to Python, which may do anything with them, for the whole batch at once.
_LEAVING = frozenset("item tolist bool int numpy array".split())
_NOTED = _DECIDING | _LEAVING
# What token ids may go through and still only say which row of a table is looked up.
_PASSING = frozenset(
    "view reshape to long int clone contiguous expand unsqueeze squeeze flatten size dim numel detach type transpose t "
    "permute getitem".split()
)
# Operations that pick some of what they are given, by numbers.
_PICKING = frozenset("getitem select narrow roll index_select gather take take_along_dim".split())
# Operations that cut a tensor in pieces, of which some may be picked out of torch's sight.
_CUTTING = frozenset("unbind split split_with_sizes chunk tensor_split iter".split())
# An index of more entries picks no row: it is a list of positions, as long as the input.
_ENTRIES = 2
# Numbers up to this stand for themselves.
_SMALL = 2

LISTENING: ContextVar[list[int] | None] = ContextVar("listening", default=None)
"""Where the paths of forward passes are noted, while somebody listens."""


@contextmanager
def paths() -> Iterator[list[int]]:
    """The paths of all forward passes inside, one after the other; 0 where one is not known."""
    found: list[int] = []
    token = LISTENING.set(found)
    try:
        yield found
    finally:
        LISTENING.reset(token)


class PathMode(InterceptMode):
    """Notes the sequence of operations of a forward pass as one number, with the numbers by which rows are picked: two
    inputs that a model takes the same way give the same.

    inputs: of the pass. Numbers are counted from the end of their length where they are near it.
    """

    path = 0

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        super().__init__()
        shapes = [value.shape for value in inputs.values() if isinstance(value, Tensor)]
        self.lengths = {shape[1] for shape in shapes if len(shape) > 1}

    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name.startswith("get:"):
            return function(*args, **kwargs)
        note: Any = name
        if name in _PICKING:
            note = (name, *map(self._mark, args[1:]), *map(self._mark, kwargs.values()))
        out = function(*args, **kwargs)
        if name in _CUTTING:  # what is picked from the pieces is not seen: their number stands for it
            note = (name, len(out) if isinstance(out, tuple | list) else len(args[0]))
        self.path = hash((self.path, note))
        return out

    def _mark(self, index: Any) -> Any:
        """A number as part of a path: near an end of the length by its distance from it, else by itself."""
        if isinstance(index, bool) or index is None:
            return index
        if isinstance(index, int):
            ends = [length - index for length in self.lengths if 0 <= length - index <= _SMALL]
            return str(index) if abs(index) <= _SMALL or not ends else f"end-{ends[0]}"
        if isinstance(index, tuple | list):
            return tuple(map(self._mark, index))
        if isinstance(index, slice):
            start, stop = index.start, index.stop
            if isinstance(start, int) and isinstance(stop, int) and 0 < stop - start <= _SMALL:  # few rows
                return self._mark(start), self._mark(stop)
            # The ends of a longer slice are lengths, which differ between inputs of one program.
            return tuple(n if n is None or (isinstance(n, int) and abs(n) <= _SMALL) else "n" for n in (start, stop))
        if isinstance(index, Tensor) and not index.is_floating_point():
            many = index.numel() > _ENTRIES
            return "many" if many else tuple(map(self._mark, index.detach().reshape(-1).tolist()))
        return type(index).__name__


class ProgramMode(InterceptMode):
    """Notes whether activations decide about what is computed, or leave to Python, and whether token ids are read for
    more than look-ups.

    It runs where gradients are on: what requires one depends on the input, or on parameters alone.
    """

    def __init__(self, ids: Iterable[Tensor], table: Tensor | None) -> None:
        super().__init__()
        self.decides = self.leaves = self.reads_ids = False
        self.table, self._ids = table, list(ids)
        self.length = self._ids[0].shape[-1] if self._ids else None

    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The model's own call; the look-up that is explained requires a gradient, also in a frozen model."""
        if name in _NOTED and any(isinstance(a, Tensor) and a.requires_grad for a in args):
            self.decides = True
            self.leaves |= name in _LEAVING
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
        out = function(*args, **kwargs)
        if name == "scaled_dot_product_attention" or (name == "softmax" and args[0].dim() == 4):
            self.left -= 1
            if self.left == 0:
                poisoned = torch.full_like(out, torch.nan)
                poisoned[..., self.read, :] = out[..., self.read, :]
                return poisoned
        return out

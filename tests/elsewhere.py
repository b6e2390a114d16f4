"""A stand-in for a second device, where there is none: tensors that know on which of two they would be.

Everything is computed on the CPU. Tensors of the model and whatever is made on their device are *there* and say that
their device is cpu:0; what is made without a device, comes from numpy or from `.cpu()` is *here*, on cpu. Where an
operation mixes the two, as no accelerator allows, or numpy reaches for what is there, that is noted. Of what autograd
makes inside nothing is known, and nothing is said.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

THERE, HERE = torch.device("cpu:0"), torch.device("cpu")
# Functions that make tensors out of nothing, or of numbers.
FACTORIES = frozenset(
    "tensor as_tensor zeros ones full empty arange linspace logspace eye rand randn randint randperm from_numpy "
    "scalar_tensor tril_indices triu_indices".split()
)
# What may move data between devices.
MOVES = frozenset("to copy_ __setitem__ cpu cuda type_as set_ data".split())


def put(tensor: Tensor, there: bool) -> Tensor:
    """Note where a tensor is."""
    tensor._there = there  # type: ignore[attr-defined]
    return tensor


def _where(tensor: Tensor) -> bool | None:
    return getattr(tensor, "_there", None)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


class Elsewhere(TorchFunctionMode):
    """Notes in `mixed` what a second device would have refused."""

    def __init__(self, *models: nn.Module) -> None:
        super().__init__()
        self.mixed: list[str] = []
        self.made = 0
        for model in models:
            for tensor in (*model.parameters(), *model.buffers()):
                put(tensor, True)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "__get__":
            return self._attribute(func, args)
        given = list(_tensors((args, kwargs)))
        self._check(name, args, given)
        result = func(*args, **kwargs)
        place = self._place(name, args, kwargs, given)
        if name in ("to", "cpu") and result is args[0]:
            result = result.view_as(result)  # a move makes another tensor
        for tensor in _tensors(result):
            if place is not None and not (name in MOVES and tensor is args[0]):
                put(tensor, place)
        return result

    def _attribute(self, func: Any, args: Any) -> Any:
        if func.__self__ is Tensor.device:
            return THERE if _where(args[0]) else HERE
        result = func(*args)
        if isinstance(result, Tensor) and _where(args[0]) is not None:
            put(result, bool(_where(args[0])))
        return result

    def _check(self, name: str, args: Any, given: list[Tensor]) -> None:
        if name in ("numpy", "__array__") and _where(args[0]):
            self.mixed.append(f"{name} of what is there")
        if name in MOVES or name in ("_is_view", "is_same_size"):
            return
        if name == "__getitem__" and _where(args[0]):
            return  # any device may be indexed from the CPU
        places = {_where(tensor) for tensor in given if tensor.ndim}
        if {True, False} <= places:
            self.mixed.append(f"{name} of {[(tuple(t.shape), _where(t)) for t in given]}")

    def _place(self, name: str, args: Any, kwargs: Any, given: list[Tensor]) -> bool | None:
        """Where the result of an operation is."""
        if name in ("cpu", "from_numpy"):
            return False
        devices = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.device)]
        if devices or kwargs.get("device") is not None or (name == "to" and isinstance(args[1:2] and args[1], str)):
            self.made += 1
            return bool(devices) and devices[0] == THERE
        if name in FACTORIES and not (name == "as_tensor" and given):
            return False
        if name == "to" and len(args) > 1 and isinstance(args[1], Tensor):
            return _where(args[1])
        places = [_where(tensor) for tensor in given if tensor.ndim] or [_where(tensor) for tensor in given]
        return True if True in places else False if False in places else None

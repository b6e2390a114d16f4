"""The modules of a model: put into eval mode for the time of a run, and refused where the engine sees nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from weakref import WeakKeyDictionary

import torch
from torch import nn

from looprop.errors import UnseenError

_QUANTISERS = {"aqlm", "auto_gptq", "awq", "bitsandbytes", "eetq", "gptqmodel", "hqq"}

_lock = Lock()
# How many runs hold a model in eval mode, and which of its modules were in training mode before the first of them.
_held: WeakKeyDictionary[nn.Module, tuple[int, list[nn.Module]]] = WeakKeyDictionary()


def modules_of(root: nn.Module | None) -> list[nn.Module]:
    """A module and all modules below it, without their names: much quicker than `modules()`."""
    found = [] if root is None else [root]
    for module in found:
        found.extend(child for child in module._modules.values() if child is not None)
    return found


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in eval mode; modules that were in training mode are put back into it by the last run that ends."""
    with _lock:
        runs, training = _held.get(model, (0, []))
        if not runs:
            training = [module for module in modules_of(model) if module.training]
            for module in training:
                module.training = False
        _held[model] = (runs + 1, training)
    try:
        # On a CPU the half precision of autocast would spoil relevance.
        with torch.autocast("cpu", enabled=False):
            yield
    finally:
        with _lock:
            runs, training = _held.pop(model)
            if runs > 1:
                _held[model] = (runs - 1, training)
            else:
                for module in training:
                    module.training = True


def is_compiled(module: nn.Module) -> bool:
    """Does a module run as compiled code?"""
    return (
        type(module).__name__ == "OptimizedModule"
        or module._compiled_call_impl is not None
        or isinstance(module, torch.jit.ScriptModule)
    )


def has_compiled(model: nn.Module) -> bool:
    """Does a model, or a part of it, run as compiled code?"""
    return any(map(is_compiled, modules_of(model)))


def refuse_opaque(module: nn.Module | None) -> None:
    """Raise for modules inside which the engine sees nothing."""
    for part in modules_of(module):
        kind = type(part)
        compiled = is_compiled(part)
        quantised = "quantized" in kind.__module__ or kind.__module__.partition(".")[0] in _QUANTISERS
        if module is None or not (compiled or quantised):
            continue
        name = next(name for name, found in module.named_modules() if found is part) or kind.__name__
        if compiled:
            raise UnseenError(f"{name} is a compiled module ({kind.__name__}): explain the module it was compiled from")
        raise UnseenError(
            f"{name} is a quantised layer ({kind.__module__}.{kind.__name__}): load the model in full precision"
        )

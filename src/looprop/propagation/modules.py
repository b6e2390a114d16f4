"""The modules of a model: put into eval mode for the time of a run, and refused where the engine sees nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from weakref import WeakKeyDictionary

import torch
from torch import nn

from looprop.errors import ModelError, UnseenError

_QUANTISERS = {"aqlm", "auto_gptq", "awq", "bitsandbytes", "eetq", "gptqmodel", "hqq"}

OWN_GRADIENTS = frozenset({torch.autograd.grad, torch.Tensor.backward})
"""Functions by which a model differentiates itself."""

_lock = Lock()
# Modules that were in training mode before a run, and how many runs hold them in eval mode now.
_held: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()


def modules_of(root: nn.Module | None) -> list[nn.Module]:
    """A module and all modules below it, without their names: much quicker than `modules()`."""
    found = [] if root is None else [root]
    for module in found:
        found.extend(child for child in module._modules.values() if child is not None)
    return found


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model in eval mode; modules that were in training mode are put back into it by the last run that holds them,
    also where that runs through another model that shares them. Raise where somebody else switched modes meanwhile.
    """
    modules = modules_of(model)
    with _lock:
        mine = [module for module in modules if module.training or module in _held] if _held else _training(modules)
        for module in mine:
            module.training = False
            _held[module] = _held.get(module, 0) + 1
    switched: list[nn.Module] = []
    try:
        # On a CPU the half precision of autocast would spoil relevance.
        with torch.autocast("cpu", enabled=False):
            yield
        switched = _training(modules)
    finally:
        with _lock:
            for module in mine:
                runs = _held.pop(module, 1)
                if runs > 1:
                    _held[module] = runs - 1
                else:
                    module.training = True
    if switched:
        raise ModelError(
            f"{type(model).__name__} was switched to training mode while it was explained, by another thread or by its "
            "own forward pass: explain and train one after the other"
        )


def _training(modules: list[nn.Module]) -> list[nn.Module]:
    return [module for module in modules if module.training]


def differentiates_itself() -> UnseenError:
    """The error of a model whose forward pass computes gradients."""
    return UnseenError(
        "the model differentiates itself in its forward pass (torch.autograd.grad), which the engine cannot follow"
    )


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

"""A model as it predicts, for the time of a `with` block."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from weakref import WeakKeyDictionary

import torch
from torch import nn

from looprop.propagation.location import modules_of

_lock = Lock()
# How many runs hold a model in eval mode, and which of its modules were in training mode before the first of them.
_held: WeakKeyDictionary[nn.Module, tuple[int, list[nn.Module]]] = WeakKeyDictionary()


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

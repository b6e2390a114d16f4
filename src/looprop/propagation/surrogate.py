"""The function of which the modified gradient of a plan is the ordinary gradient: its surrogate.

Every rule is built from a few changes to the backward pass (`gradients.py`). Each is the true derivative of a simple
function that agrees with the model at the explained input: a straight line through the value there, or the value itself
held constant. Put in place of the rules, they make a model that can be run at inputs nearby. Its slopes, measured by
finite differences, must be the relevances: a check that does not depend on having seen every operation, since whatever
a rule missed moves the surrogate and is no part of the relevance.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from looprop.errors import InputError

_CURRENT: ContextVar[Surrogate | None] = ContextVar("surrogate", default=None)


def surrogate_in_force() -> Surrogate | None:
    """The surrogate whose `at` block is running, if any."""
    return _CURRENT.get()


class Surrogate:
    """Values at the explained input, in the order in which a forward pass meets them.

    The first pass, at the input itself, notes them; later ones, elsewhere, meet them again.
    """

    def __init__(self) -> None:
        self._values: list[tuple[Tensor, ...]] = []
        self._next = 0
        self._step = 0.0
        self._direction: Tensor | None = None
        self._noted = False

    @property
    def explained(self) -> Tensor:
        """The explained tensor at the input itself."""
        if not self._noted:
            raise InputError("a surrogate first has to run at the explained input itself")
        return self._values[0][0]

    @contextmanager
    def at(self, direction: Tensor | None = None, step: float = 0.0) -> Iterator[None]:
        """Passes inside the block are those of the surrogate, at x + step * direction."""
        self._direction, self._step, self._next = direction, step, 0
        token = _CURRENT.set(self)
        try:
            yield
            if self._noted and self._next != len(self._values):
                raise InputError(f"the model went another way nearby: {self._next} rules for {len(self._values)}")
            self._noted = True
        finally:
            _CURRENT.reset(token)

    def start(self, x: Tensor) -> Tensor:
        """The explained tensor, moved."""
        (first,) = self._met(x)
        return first.clone() if self._direction is None else first + self._step * self._direction

    def held(self, value: Tensor) -> Tensor:
        """A value that is held constant."""
        return self._met(value)[0]

    def line(self, x: Tensor, value: Tensor, slope: Tensor | float) -> Tensor:
        """A straight line through the value that was met at the input itself."""
        x0, value0, slope0 = self._met(x, value, torch.as_tensor(slope, dtype=value.dtype, device=value.device))
        moved = (x - x0).masked_fill(x.detach() == x0, 0.0)  # also where both are infinite
        return value0 + (slope0 * moved).to(value0.dtype)

    def _met(self, *values: Tensor) -> tuple[Tensor, ...]:
        if not self._noted:
            self._values.append(tuple(value.detach().clone() for value in values))
            return self._values[-1]
        self._next += 1
        known = self._values[self._next - 1] if self._next <= len(self._values) else ()
        if [value.shape for value in known] != [value.shape for value in values]:
            raise InputError("the model went another way nearby: its rules meet tensors of other shapes")
        return known

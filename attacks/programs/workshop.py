"""Where random programs are made: dice, parameters, and the tensors made so far."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attacks.programs.steps import Affine, Array, Kind, Step


class Workshop:
    """Dice, and the steps made so far. Sizes are small, since relevance is computed by hand in loops."""

    def __init__(self, seed: Sequence[int]) -> None:
        self.dice = np.random.default_rng(seed)
        self.shape = (int(self.dice.integers(1, 5)), int(self.dice.choice([2, 4, 4, 6])))  # tokens, width
        self.steps: list[Step] = []
        self.parameters: list[Tensor] = []
        self.trainable = bool(self.dice.integers(2))

    def pick(self, options: Sequence[Any]) -> Any:
        """One of some things."""
        return options[int(self.dice.integers(len(options)))]

    def numbers(self, *shape: int, spread: float = 1.0) -> Array:
        """Random numbers that are not close to 0."""
        found = self.dice.normal(size=shape)
        return spread * np.asarray(found + 0.05 * np.sign(found))

    def parameter(self, array: Array) -> Tensor:
        """The array as torch has it: a parameter in one half of the programs, a constant in the other."""
        tensor = torch.tensor(array, dtype=torch.float64)
        tensor = nn.Parameter(tensor) if self.trainable else tensor
        self.parameters.append(tensor)
        return tensor

    def shape_of(self, number: int) -> tuple[int, ...]:
        """The shape of an earlier tensor."""
        return self.steps[number - 1].shape if number else self.shape

    def tensor(self) -> int:
        """An earlier tensor, late ones above all."""
        last = len(self.steps)
        return last if self.dice.random() < 0.7 else int(self.dice.integers(last + 1))

    def alike(self, number: int) -> int:
        """A tensor of the same shape, another one where there is one."""
        shape = self.shape_of(number)
        others = [i for i in range(len(self.steps) + 1) if i != number and self.shape_of(i) == shape]
        return self.pick(others) if others else number

    def add(
        self,
        inputs: tuple[int, ...],
        kind: Kind,
        shape: tuple[int, ...],
        label: str,
        write: Callable[..., Any],
        **more: Any,
    ) -> int:
        """Write a step down; returns its number."""
        self.steps.append(Step(inputs, kind, shape, write, label, **more))
        return len(self.steps)

    def spelled(
        self, inputs: tuple[int, ...], kind: Kind, shape: tuple[int, ...], spellings: dict[str, Callable[..., Any]]
    ) -> int:
        """Write a step down in one of its spellings."""
        name = self.pick(list(spellings))
        return self.add(inputs, kind, shape, name, spellings[name])

    def linear(self, number: int, width: int, *, bias: bool = True) -> int:
        """A plain linear layer, for use inside other steps."""
        weight, shift, kind, shape = self.layer(number, width, bias=bias)
        return self.add((number,), kind, shape, "linear", lambda x: nn.functional.linear(x, weight, shift))

    def layer(
        self, number: int, width: int, *, bias: bool = True
    ) -> tuple[Tensor, Tensor | None, Affine, tuple[int, ...]]:
        """Weight, bias, mathematics and shape of a linear layer over the last axis."""
        *rows, inner = self.shape_of(number)
        weight = self.numbers(width, inner, spread=inner**-0.5)
        shift = self.numbers(width, spread=0.3) if bias else None
        kind = Affine((*rows, width), [np.kron(np.eye(int(np.prod(rows))), weight)], 0.0 if shift is None else shift)
        return (
            self.parameter(weight),
            None if shift is None else self.parameter(shift),
            kind,
            (*rows, width),
        )


def selection(shape: tuple[int, ...], chosen: Array | Any) -> Affine:
    """A tensor of entries of another: chosen holds their flat numbers, -1 for a zero."""
    chosen = np.asarray(chosen)
    matrix = np.zeros((chosen.size, int(np.prod(shape))))
    for row, column in enumerate(chosen.ravel()):
        if column >= 0:
            matrix[row, int(column)] = 1.0
    return Affine(chosen.shape, [matrix])


def numbered(shape: tuple[int, ...]) -> Any:
    """The flat number of every entry."""
    return np.arange(int(np.prod(shape))).reshape(shape)

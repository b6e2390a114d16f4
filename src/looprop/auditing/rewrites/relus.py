"""Rewrites of ReLU networks, by ReLU(a x) = a ReLU(x) and ReLU(ReLU(x) - c) = ReLU(x - c), both for a, c > 0."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from looprop.auditing.rewrites.base import Changes, Model, Places, Rewrite
from looprop.auditing.rewrites.linears import bias_of, linear_map, matrix_of
from looprop.auditing.rewrites.observing import is_linear


class ReluRescaled(Rewrite):
    """W2 ReLU(W1 x + b1) = (W2 / a) ReLU(a (W1 x + b1)) for a > 0, another a for every unit."""

    name = "relu-rescaled"

    def apply(self, model: Model, changes: Changes) -> Places:
        places, generator = Places(), model.generator()
        for first in [source for source in model.observed.uses if is_linear(source)]:
            readers = model.observed.readers(first, through="relu")
            if readers.reason:
                continue
            matrix = matrix_of(first, changes)
            factors = torch.exp2(4 * torch.rand(len(matrix), generator=generator, dtype=torch.float64) - 2).to(matrix)
            matrix.mul_(factors[:, None])
            if bias_of(first) is not None:
                changes.edit(first, "bias").mul_(factors)
            for reader in readers.modules:
                matrix_of(reader, changes).div_(factors)
            places.changed.append(model.observed.names[first])
        return places


class ReluRearranged(Rewrite):
    """ReLU(w ReLU(u) - c - ...) = ReLU(w ReLU(u - c / w) - ...) for w, c > 0, if everything else is never positive.

    The counterexample of Sundararajan et al. 2017 (appendix B): where w ReLU(u) <= c, both sides are zero. Done for
    units of `Linear, ReLU, Linear, ReLU` in an nn.Sequential; the shifted unit is a copy, as others may read the
    original.
    """

    name = "relu-rearranged"

    def apply(self, model: Model, changes: Changes) -> Places:
        places = Places()
        for module, name in model.observed.names.items():
            if not isinstance(module, nn.Sequential):
                continue
            for start, first, second in _pairs(module):
                for unit in _shift_units(first, second, changes):
                    places.changed.append(f"{name or 'model'}.{start + 2}, unit {unit}")
        return places


def _pairs(sequence: nn.Sequential) -> Iterator[tuple[int, nn.Linear, nn.Linear]]:
    """The linear layers of every `Linear, ReLU, Linear, ReLU`, and where it starts."""
    parts = list(sequence)
    for start in range(len(parts) - 3):
        first, relu, second, last = parts[start : start + 4]
        if not (isinstance(first, nn.Linear) and isinstance(second, nn.Linear) and second.bias is not None):
            continue
        if isinstance(relu, nn.ReLU) and isinstance(last, nn.ReLU):
            yield start, first, second


def _shift_units(first: nn.Linear, second: nn.Linear, changes: Changes) -> list[int]:
    """Rearrange the units of the second layer that have a negative bias and one positive weight, and say which."""
    weight, bias = second.weight.detach(), second.bias.detach()
    units = [j for j in range(len(weight)) if bias[j] < 0 and int((weight[j] > 0).sum()) == 1]
    if not units:
        return []
    speakers = [int(weight[j].argmax()) for j in units]  # the unit of the first layer that speaks for each
    inner = first.weight.detach()
    inner_bias = first.bias.detach() if first.bias is not None else inner.new_zeros(len(inner))
    slopes = torch.stack([weight[j, p] for j, p in zip(units, speakers, strict=True)])
    # Each unit gets a copy of the one that speaks for it, with the bias moved inside.
    copies = weight.new_zeros(len(weight), len(units))
    kept, outer_bias = weight.clone(), bias.clone()
    for column, (j, p) in enumerate(zip(units, speakers, strict=True)):
        copies[j, column], kept[j, p], outer_bias[j] = weight[j, p], 0.0, 0.0
    shifted: Tensor = inner_bias[speakers] + bias[units] / slopes
    wide, wide_bias = torch.cat([inner, inner[speakers]]), torch.cat([inner_bias, shifted])
    if first.bias is None:
        changes.set_forward(first, linear_map(wide, wide_bias))
    else:
        changes.replace(first, "weight", wide)
        changes.replace(first, "bias", wide_bias)
    changes.replace(second, "weight", torch.cat([kept, copies], 1))
    changes.replace(second, "bias", outer_bias)
    return units

"""Steps that are linear in their activations: layers, sums, selections, in many spellings."""

import numpy as np
import torch
from torch.nn import functional as F

from attacks.programs.steps import Affine
from attacks.programs.workshop import Workshop, numbered, selection


def layer(w: Workshop) -> int:
    """A linear layer."""
    number = w.tensor()
    width = int(w.pick([2, 4, 6]))
    weight, bias, kind, shape = w.layer(number, width, bias=bool(w.dice.integers(2)))
    plus = 0.0 if bias is None else bias
    inner = w.shape_of(number)[-1]
    rows = shape[0]
    spellings = {
        "linear": lambda x: F.linear(x, weight, bias),
        "@": lambda x: x @ weight.T + plus,
        "matmul": lambda x: torch.matmul(x, weight.transpose(0, 1)) + plus,
        "einsum linear": lambda x: torch.einsum("btd,ed->bte", x, weight) + plus,
        "einsum lists": lambda x: torch.einsum("...d,ed->...e", x, weight) + plus,
        "tensordot": lambda x: torch.tensordot(x, weight, dims=([2], [1])) + plus,
        "mul and sum": lambda x: (x.unsqueeze(-2) * weight).sum(-1) + plus,
        "mm of rows": lambda x: torch.mm(x.reshape(-1, inner), weight.t()).view(len(x), rows, width) + plus,
        "addmm": lambda x: torch.addmm(
            weight.new_zeros(width) if bias is None else bias, x.reshape(-1, inner), weight.t()
        ).reshape(len(x), rows, width),
        "conv1d": lambda x: F.conv1d(x.transpose(1, 2), weight[:, :, None], bias).transpose(1, 2),
        "bmm": lambda x: torch.bmm(x, weight.T.expand(len(x), -1, -1)) + plus,
        "baddbmm": lambda x: torch.baddbmm(
            torch.zeros(len(x), rows, width, dtype=x.dtype) + plus, x, weight.T.expand(len(x), -1, -1)
        ),
        "column by column": lambda x: torch.stack([(x * row).sum(-1) for row in weight], -1) + plus,
        "added in place": lambda x: (x @ weight.T).add_(plus),
    }
    return w.spelled((number,), kind, shape, spellings)


def total(w: Workshop) -> int:
    """A sum of two activations, or their difference."""
    first = w.tensor()
    second = w.alike(first)
    shape = w.shape_of(first)
    one = np.eye(int(np.prod(shape)))
    sign = 1.0 if first == second else float(w.pick([1.0, 1.0, -1.0]))
    spellings = {
        "+": lambda a, b: a + b if sign > 0 else a - b,
        "add": lambda a, b: torch.add(a, b, alpha=sign),
        "sub": lambda a, b: torch.sub(a, -sign * b),
        "add_": lambda a, b: a.clone().add_(b, alpha=sign),
        "+=": lambda a, b: _increased(a, sign * b),
        "stacked": lambda a, b: torch.stack([a, sign * b]).sum(0),
        "twice the mean": lambda a, b: torch.stack([a, sign * b], -1).mean(-1) * 2,
        "of a view": lambda a, b: torch.cat([a, sign * b], 1).view(len(a), 2, *a.shape[1:]).sum(1),
    }
    return w.spelled((first, second), Affine(shape, [one, sign * one]), shape, spellings)


def _increased(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a = a.clone()
    a += b
    return a


def shift(w: Workshop) -> int:
    """A constant table is added, as positions are."""
    number = w.tensor()
    shape = w.shape_of(number)
    table = w.numbers(*shape, spread=0.5)
    constant = w.parameter(table)
    spellings = {
        "+ table": lambda x: x + constant,
        "table +": lambda x: constant + x,
        "table expanded": lambda x: x + constant.expand_as(x),
        "- table": lambda x: x - (-constant),
        "iadd table": lambda x: x.clone().add_(constant),
    }
    return w.spelled((number,), Affine(shape, [np.eye(table.size)], table), shape, spellings)


def scaling(w: Workshop) -> int:
    """By a number, or by a constant vector."""
    number = w.tensor()
    shape = w.shape_of(number)
    size = int(np.prod(shape))
    if w.dice.integers(2):
        factor = float(w.numbers())
        kind = Affine(shape, [factor * np.eye(size)])
        spellings = {
            "* number": lambda x: x * factor,
            "/ number": lambda x: x / (1 / factor),
            "mul_": lambda x: x.clone().mul_(factor),
            "neg": lambda x: -(x * -factor),
            "number - ": lambda x: 0.0 - x * (-factor),
        }
        return w.spelled((number,), kind, shape, spellings)
    gain = w.numbers(shape[-1])
    vector = w.parameter(gain)
    kind = Affine(shape, [np.diag(np.tile(gain, size // len(gain)))])
    return w.spelled(
        (number,),
        kind,
        shape,
        {"* gain": lambda x: x * vector, "gain *": lambda x: vector * x, "/ gain": lambda x: x / (1 / vector)},
    )


def reshaped(w: Workshop) -> int:
    """The same entries in another order: there and back, or another shape of (T, D)."""
    number = w.tensor()
    rows, width = w.shape_of(number)
    flat = numbered((rows, width))
    turn = int(w.dice.integers(1, 4))
    order = w.dice.permutation(width)
    index = torch.tensor(order)
    options = {
        "transpose": (flat.T, lambda x: x.transpose(1, 2)),
        "permute": (flat.T, lambda x: x.permute(0, 2, 1).contiguous()),
        "mT": (flat.T, lambda x: x.mT),
        "view": (flat.reshape(width, rows), lambda x: x.contiguous().view(len(x), width, rows)),
        "reshape": (flat.reshape(width, rows), lambda x: x.reshape(-1, width, rows)),
        "unflatten": (flat, lambda x: x.flatten(1).unflatten(1, (rows, width))),
        "squeeze": (flat, lambda x: x[:, None].squeeze(1)),
        "roll": (np.roll(flat, turn, 1), lambda x: torch.roll(x, turn, -1)),
        "flip": (flat[::-1], lambda x: x.flip(1)),
        "index_select": (flat[:, order], lambda x: x.index_select(2, index)),
        "fancy index": (flat[:, order], lambda x: x[..., index]),
        "gather": (flat[:, order], lambda x: x.gather(2, index.expand(len(x), rows, width))),
        "chunks": (np.concatenate([flat[:, width // 2 :], flat[:, : width // 2]], 1), _swapped),
        "einsum transpose": (flat.T, lambda x: torch.einsum("btd->bdt", x)),
        "cast": (flat, lambda x: x.to(torch.float64).double().clone()),
        "as_strided": (flat, lambda x: x.contiguous().as_strided(x.shape, (rows * width, width, 1))),
    }
    name = w.pick(list(options))
    chosen, write = options[name]
    kind = selection((rows, width), chosen)
    return w.add((number,), kind, kind.shape, name, write) if _wide(kind.shape) else layer(w)


def _swapped(x: torch.Tensor) -> torch.Tensor:
    left, right = x.split([x.shape[-1] // 2, x.shape[-1] - x.shape[-1] // 2], dim=-1)
    return torch.cat([right, left], dim=-1)


def _wide(shape: tuple[int, ...]) -> bool:
    """Whether a tensor is one that further steps can work on."""
    return len(shape) == 2 and 1 <= shape[0] <= 8 and 2 <= shape[1] <= 8


def cut(w: Workshop) -> int:
    """A slice, a concatenation, a mask, a repetition."""
    number = w.tensor()
    rows, width = w.shape_of(number)
    flat = numbered((rows, width))
    second = w.alike(number)
    keep = w.dice.random((rows, width)) < 0.7
    kept = torch.tensor(keep)
    lower = np.tri(rows, width, dtype=bool)
    one = {
        "first rows": (flat[: max(1, rows - 1)], lambda x: x[:, : max(1, rows - 1)]),
        "narrow": (flat[rows - 1 :], lambda x: x.narrow(1, rows - 1, 1)),
        "row and back": (flat[:1], lambda x: x[:, 0].unsqueeze(1)),
        "select": (flat[:1], lambda x: x.select(1, 0)[:, None, :]),
        "unbind": (flat, lambda x: torch.stack(x.unbind(1), 1)),
        "repeat": (np.concatenate([flat, flat]), lambda x: x.repeat(1, 2, 1)),
        "expand": (np.repeat(flat[:1], rows, 0), lambda x: x[:, :1].expand(-1, rows, -1)),
        "repeat_interleave": (np.repeat(flat, 2, 0), lambda x: x.repeat_interleave(2, dim=1)),
        "masked_fill": (np.where(keep, flat, -1), lambda x: x.masked_fill(~kept, 0.0)),
        "masked_fill_": (np.where(keep, flat, -1), lambda x: x.clone().masked_fill_(~kept, 0.0)),
        "where": (np.where(keep, flat, -1), lambda x: torch.where(kept, x, torch.zeros_like(x))),
        "* mask": (np.where(keep, flat, -1), lambda x: x * kept.to(x.dtype)),
        "tril": (np.where(lower, flat, -1), lambda x: x.tril()),
        "setitem 0": (np.where(np.arange(rows)[:, None] == 0, -1, flat), _without_first),
        "pad": (np.pad(flat, ((1, 0), (0, 0)), constant_values=-1), lambda x: F.pad(x, (0, 0, 1, 0))),
        "written into": (flat, _copied),
    }
    name = w.pick([*one, "cat", "cat", "stack"])
    if name in one:
        chosen, write = one[name]
        kind = selection((rows, width), chosen)
        return w.add((number,), kind, kind.shape, name, write) if _wide(kind.shape) else layer(w)
    size, axis = rows * width, 0 if rows <= 4 else 1
    both = np.concatenate([flat, flat + size], axis)
    if not _wide(both.shape):
        return layer(w)
    whole = np.zeros((both.size, 2 * size))
    whole[np.arange(both.size), both.ravel()] = 1.0
    kind = Affine(both.shape, [whole[:, :size], whole[:, size:]])
    spellings = {
        "cat": lambda a, b: torch.cat([a, b], 1 + axis),
        "stack": lambda a, b: torch.stack([a, b], 1 + axis).flatten(1 + axis, 2 + axis),
        "filled": lambda a, b: _filled(a, b, axis),
    }
    return w.spelled((number, second), kind, both.shape, spellings)


def _filled(a: torch.Tensor, b: torch.Tensor, axis: int) -> torch.Tensor:
    """Two tensors written into an empty one, half by half."""
    shape = list(a.shape)
    shape[1 + axis] *= 2
    out, middle = a.new_zeros(shape), a.shape[1 + axis]
    out.narrow(1 + axis, 0, middle).copy_(a)
    if axis == 0:
        out[:, middle:] = b
    else:
        out[:, :, middle:] = b
    return out


def _without_first(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, 0] = 0.0
    return x


def _copied(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    out.copy_(x)
    return out


def reduced(w: Workshop) -> int:
    """Means, cumulative sums, rotations, convolutions over the tokens; the largest of some entries."""
    number = w.tensor()
    rows, width = w.shape_of(number)
    eye = np.eye(width)
    name = w.pick(["mean", "mean kept", "cumsum", "rotary", "mix", "amax", "max", "einsum mean"])
    if name in ("amax", "max"):
        flat = numbered((rows, width))
        make = lambda x: selection((rows, width), flat[x.argmax(0), np.arange(width)][None]).matrices  # noqa: E731
        kind = Affine((1, width), make)
        write = (lambda x: x.amax(1, keepdim=True)) if name == "amax" else (lambda x: x.max(dim=1).values[:, None])
        return w.add((number,), kind, (1, width), name, write)
    if name == "rotary" and width % 2 == 0:
        angles = w.dice.uniform(0, 3, (rows, width // 2))
        return _rotary(w, number, angles)
    if name in ("mix", "rotary"):
        mixing = w.numbers(rows, rows)
        matrix = w.parameter(mixing)
        kind = Affine((rows, width), [np.kron(mixing, eye)])
        return w.spelled(
            (number,),
            kind,
            (rows, width),
            {"mix": lambda x: matrix @ x, "einsum mix": lambda x: torch.einsum("st,btd->bsd", matrix, x)},
        )
    mean, lower = np.full((1, rows), 1 / rows), np.tri(rows)
    options = {
        "mean": (mean, lambda x: x.mean(1, keepdim=True)),
        "mean kept": (np.repeat(mean, rows, 0), lambda x: x.mean(1, keepdim=True).expand_as(x)),
        "cumsum": (lower, lambda x: x.cumsum(1)),
        "einsum mean": (mean, lambda x: (torch.einsum("btd->bd", x) / rows)[:, None]),
    }
    small, write = options[name]
    return w.add((number,), Affine((len(small), width), [np.kron(small, eye)]), (len(small), width), name, write)


def _rotary(w: Workshop, number: int, angles: np.ndarray) -> int:
    """Pairs of entries turned by constant angles, with real or complex numbers."""
    rows, pairs = angles.shape
    matrix = np.zeros((rows * 2 * pairs, rows * 2 * pairs))
    for t, p in np.ndindex(rows, pairs):
        at = t * 2 * pairs + 2 * p
        c, s = np.cos(angles[t, p]), np.sin(angles[t, p])
        matrix[at, at], matrix[at, at + 1], matrix[at + 1, at], matrix[at + 1, at + 1] = c, -s, s, c
    cos, sin = torch.tensor(np.cos(angles)), torch.tensor(np.sin(angles))
    turn = torch.polar(torch.ones_like(cos), torch.tensor(angles))

    def real(x: torch.Tensor) -> torch.Tensor:
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)

    def complex_numbers(x: torch.Tensor) -> torch.Tensor:
        together = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
        return torch.view_as_real(together * turn).flatten(-2)

    shape = (rows, 2 * pairs)
    return w.spelled((number,), Affine(shape, [matrix]), shape, {"rotary": real, "complex rotary": complex_numbers})


LINEAR = {
    "layer": layer,
    "sum": total,
    "shift": shift,
    "scaling": scaling,
    "reshaped": reshaped,
    "cut": cut,
    "reduced": reduced,
}

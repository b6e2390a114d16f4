"""Activations in many spellings, products and gates, norms fused and written out."""

import math

import numpy as np
import torch
from scipy.special import erf, expit
from torch import Tensor
from torch.nn import functional as F

from attacks.programs.steps import Affine, Array, MatrixProduct, Pointwise, Product
from attacks.programs.workshop import Workshop

ROOT2, TURN = math.sqrt(2), math.sqrt(2 / math.pi)


def _gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + erf(x / ROOT2)))


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(TURN * (x + 0.044715 * x**3))))


def _mish(x: Array) -> Array:
    return np.asarray(x * np.tanh(np.log1p(np.exp(x))))


def _hardswish(x: Array) -> Array:
    return np.asarray(x * np.clip(x + 3, 0, 6) / 6)


# Of each activation its formula, and the ways to write it.
ACTIVATIONS = {
    "relu": (
        lambda x: np.maximum(x, 0),
        {
            "F.relu": F.relu,
            "relu_": lambda x: x.clone().relu_(),
            "F.relu inplace": lambda x: F.relu(x.clone(), inplace=True),
            "clamp": lambda x: x.clamp(min=0),
            "clamp_min_": lambda x: x.clone().clamp_(min=0.0),
            "maximum": lambda x: torch.maximum(x, torch.zeros_like(x)),
            "where": lambda x: torch.where(x > 0, x, 0.0),
            "* sign": lambda x: x * (x > 0),
            "threshold": lambda x: F.threshold(x, 0.0, 0.0),
            "half the sum": lambda x: (x + x.abs()) / 2,
            "masked": lambda x: x.masked_fill(x < 0, 0.0),
        },
    ),
    "gelu": (
        _gelu,
        {
            "F.gelu": F.gelu,
            "gelu by hand": lambda x: 0.5 * x * (1 + torch.erf(x / ROOT2)),
            "gelu other way": lambda x: x * (torch.erf(x / ROOT2) * 0.5 + 0.5),
            "nn.GELU": torch.nn.GELU(),
        },
    ),
    "gelu tanh": (
        _gelu_tanh,
        {
            "F.gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
            "gelu new": lambda x: 0.5 * x * (1 + torch.tanh(TURN * (x + 0.044715 * torch.pow(x, 3)))),
            "gelu factored": lambda x: 0.5 * x * (1 + torch.tanh(x * TURN * (1 + 0.044715 * x * x))),
        },
    ),
    "silu": (
        lambda x: x * expit(x),
        {
            "F.silu": F.silu,
            "x sigmoid": lambda x: x * torch.sigmoid(x),
            "sigmoid x": lambda x: x.sigmoid().mul(x),
            "x / (1 + exp)": lambda x: x / (1 + torch.exp(-x)),
            "inplace": lambda x: F.silu(x.clone(), inplace=True),
        },
    ),
    "quick gelu": (lambda x: x * expit(1.702 * x), {"quick gelu": lambda x: x * torch.sigmoid(1.702 * x)}),
    "tanh": (
        np.tanh,
        {
            "tanh": torch.tanh,
            "tanh_": lambda x: x.clone().tanh_(),
            "2 sigmoid - 1": lambda x: 2 * torch.sigmoid(2 * x) - 1,
            "by exp": lambda x: (torch.exp(2 * x) - 1) / (torch.exp(2 * x) + 1),
        },
    ),
    "mish": (_mish, {"F.mish": F.mish, "mish by hand": lambda x: x * torch.tanh(F.softplus(x))}),
    "hardswish": (
        _hardswish,
        {
            "F.hardswish": F.hardswish,
            "relu6 by hand": lambda x: x * F.relu6(x + 3) / 6,
            "clamp by hand": lambda x: x * torch.clamp(x / 6 + 0.5, 0, 1),
            "hardsigmoid": lambda x: x * F.hardsigmoid(x),
        },
    ),
    "square": (
        lambda x: x * x,
        {"x*x": lambda x: x * x, "**2": lambda x: x**2, "square": torch.square, "pow_": lambda x: x.clone().pow_(2)},
    ),
    "squared relu": (lambda x: np.maximum(x, 0) ** 2, {"relu squared": lambda x: F.relu(x).square()}),
    "leaky": (
        lambda x: np.where(x > 0, x, 0.1 * x),
        {"F.leaky": lambda x: F.leaky_relu(x, 0.1), "by max": lambda x: torch.maximum(x, 0.1 * x)},
    ),
    "elu": (
        lambda x: np.where(x > 0, x, np.expm1(x)),
        {"F.elu": F.elu, "elu by hand": lambda x: torch.where(x > 0, x, torch.expm1(x))},
    ),
    "softsign": (lambda x: x / (1 + np.abs(x)), {"F.softsign": F.softsign, "by hand": lambda x: x / (1 + x.abs())}),
    "sin": (np.sin, {"sin": torch.sin}),
    "abs": (np.abs, {"abs": torch.abs, "x sign": lambda x: x * x.sign(), "root": lambda x: torch.sqrt(x * x)}),
    "relu + tanh": (lambda x: np.maximum(x, 0) + np.tanh(x), {"relu + tanh": lambda x: F.relu(x) + torch.tanh(x)}),
    "log1p abs": (lambda x: np.log1p(np.abs(x)), {"log1p abs": lambda x: torch.log1p(x.abs())}),
    "softplus - log 2": (
        lambda x: np.log1p(np.exp(x)) - math.log(2),
        {
            "softplus - log 2": lambda x: F.softplus(x) - math.log(2),
            "logsigmoid": lambda x: -F.logsigmoid(-x) - math.log(2),
        },
    ),
}


def activation(w: Workshop) -> int:
    """An activation."""
    number = w.tensor()
    formula, spellings = ACTIVATIONS[w.pick(list(ACTIVATIONS))]
    return w.spelled((number,), Pointwise(formula), w.shape_of(number), spellings)


def product(w: Workshop) -> int:
    """A product of two activations, entry by entry."""
    first = w.tensor()
    shape = w.shape_of(first)
    second = w.alike(first)
    if second == first or w.dice.integers(3) == 0:
        second = w.linear(first, shape[1])
    spellings = {
        "*": lambda a, b: a * b,
        "mul": torch.mul,
        "mul_": lambda a, b: a.clone().mul_(b),
        "einsum product": lambda a, b: torch.einsum("btd,btd->btd", a, b),
        "multiply": torch.multiply,
    }
    return w.spelled((first, second), Product(), shape, spellings)


def gate(w: Workshop) -> int:
    """A gated layer: an activation of one branch times another."""
    number = w.tensor()
    width = w.shape_of(number)[1]
    branch = w.linear(number, width)
    formula, spellings = ACTIVATIONS[w.pick(["silu", "gelu", "relu", "tanh"])]
    gated = w.spelled((branch,), Pointwise(formula), w.shape_of(branch), spellings)
    other = w.linear(number, width)
    if w.dice.integers(3) == 0:  # one gate for all entries of a row
        gated = w.linear(gated, 1)
    return w.add((other, gated), Product(), w.shape_of(other), "gate", lambda a, b: a * b)


def coefficient(w: Workshop) -> int:
    """A function with f(0) != 0 times another activation: held constant, the signal takes all relevance."""
    signal = w.tensor()
    shape = w.shape_of(signal)
    size = int(np.prod(shape))
    other = w.linear(signal, shape[1])
    formulas = {
        "sigmoid": (expit, lambda a, b: a * torch.sigmoid(b)),
        "sigmoid first": (expit, lambda a, b: b.sigmoid() * a),
        "sigmoid_": (expit, lambda a, b: torch.mul(a, b.clone().sigmoid_())),
        "exp": (lambda b: np.exp(0.3 * b), lambda a, b: a * torch.exp(0.3 * b)),
        "1 - sigmoid": (lambda b: 1 - expit(b), lambda a, b: (1 - torch.sigmoid(b)) * a),
        "quotient": (lambda b: 1 / (b * b + 1), lambda a, b: a / (b * b + 1)),
        "softplus": (lambda b: np.log1p(np.exp(b)), lambda a, b: a * F.softplus(b)),
        "1 + tanh": (lambda b: 1 + np.tanh(b), lambda a, b: a * (1 + torch.tanh(b))),
    }
    name = w.pick(list(formulas))
    formula, write = formulas[name]
    kind = Affine(shape, lambda a, b: [np.diag(formula(b).ravel()), np.zeros((size, size))])
    return w.add((signal, other), kind, shape, f"coefficient {name}", write)


def matrix_product(w: Workshop) -> int:
    """A product of two activations as matrices, such as linear attention has."""
    number = w.tensor()
    rows, width = w.shape_of(number)
    left, right = w.linear(number, width), w.linear(number, width)
    if w.dice.integers(2):
        spellings = {
            "tokens by tokens": lambda a, b: a @ b,
            "einsum tokens": lambda a, b: torch.einsum("bti,btj->bij", a.mT, b),
        }
        flip = w.add((left,), _turned(rows, width), (width, rows), "mT", lambda x: x.mT)
        inner = w.spelled((flip, right), MatrixProduct(), (width, width), spellings)
        return w.spelled(
            (number, inner),
            MatrixProduct(),
            (rows, width),
            {"@": lambda a, b: a @ b, "bmm": torch.bmm, "matmul": torch.matmul},
        )
    flip = w.add((right,), _turned(rows, width), (width, rows), "transpose", lambda x: x.transpose(-1, -2))
    scores = w.spelled((left, flip), MatrixProduct(), (rows, rows), {"@": lambda a, b: a @ b, "bmm": torch.bmm})
    return w.spelled(
        (scores, number), MatrixProduct(), (rows, width), {"@": lambda a, b: a @ b, "matmul": torch.matmul}
    )


def _turned(rows: int, width: int) -> Affine:
    matrix = np.zeros((rows * width, rows * width))
    for t, d in np.ndindex(rows, width):
        matrix[d * rows + t, t * width + d] = 1.0
    return Affine((width, rows), [matrix])


def norm(w: Workshop) -> int:
    """Layer norm or RMS norm; the deviation is held constant."""
    number = w.tensor()
    rows, width = w.shape_of(number)
    gain, shift = w.numbers(width), w.numbers(width, spread=0.5)
    centred = bool(w.dice.integers(2))
    eps = 1e-5
    g, b = w.parameter(gain), w.parameter(shift)

    def matrices(x: Array) -> list[Array]:
        centre = np.eye(width) - (1 / width if centred else 0)
        whole = np.zeros((rows * width, rows * width))
        for t in range(rows):
            sigma = math.sqrt(float(((centre @ x[t]) ** 2).mean()) + eps)
            whole[t * width : (t + 1) * width, t * width : (t + 1) * width] = np.diag(gain / sigma) @ centre
        return [whole]

    spellings = _layer_norms(width, g, b, eps) if centred else _rms_norms(width, g, b, eps)
    return w.spelled((number,), Affine((rows, width), matrices, shift), (rows, width), spellings)


def _layer_norms(width: int, g: Tensor, b: Tensor, eps: float) -> dict[str, object]:
    def centred(x: Tensor) -> Tensor:
        return x - x.mean(-1, keepdim=True)

    return {
        "F.layer_norm": lambda x: F.layer_norm(x, (width,), g, b, eps),
        "var": lambda x: centred(x) / torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + eps) * g + b,
        "rsqrt": lambda x: centred(x) * torch.rsqrt(centred(x).pow(2).mean(-1, keepdim=True) + eps) * g + b,
        "mean of squares": lambda x: (
            g * (centred(x) / (centred(x) * centred(x)).mean(-1, keepdim=True).add(eps).sqrt()) + b
        ),
        "var correction": lambda x: g * centred(x) * (x.var(-1, correction=0, keepdim=True) + eps) ** -0.5 + b,
        "native": lambda x: torch.native_layer_norm(x, (width,), g, b, eps)[0],
        "var_mean": lambda x: (
            (x - torch.var_mean(x, -1, correction=0, keepdim=True)[1])
            / torch.sqrt(torch.var_mean(x, -1, correction=0, keepdim=True)[0] + eps)
            * g
            + b
        ),
    }


def _rms_norms(width: int, g: Tensor, b: Tensor, eps: float) -> dict[str, object]:
    return {
        "F.rms_norm": lambda x: F.rms_norm(x, (width,), g, eps) + b,
        "rsqrt": lambda x: g * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)) + b,
        "sqrt": lambda x: x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * g + b,
        "pow": lambda x: x * (x.square().mean(-1, keepdim=True) + eps).pow(-0.5) * g + b,
        "sum": lambda x: x / ((x**2).sum(-1, keepdim=True) / width + eps).sqrt() * g + b,
    }


POINTWISE = {
    "activation": activation,
    "product": product,
    "gate": gate,
    "coefficient": coefficient,
    "matrix product": matrix_product,
    "norm": norm,
}

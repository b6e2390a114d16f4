"""Products of many rows with a layer's weight, by the quicker of the two libraries that torch brings along.

torch gives products of float32 to MKL, which keeps its AVX-512 kernels for Intel's processors. On an AMD processor that
has these instructions oneDNN, which is part of torch as well, takes less than half of the time (docs/speed.md). Which
of them runs goes by the processor and by shapes, never by a clock, so that a number can be computed again to the last
bit. Both compute in float32 and differ by rounding; the model's own answer is always computed by torch's own choice,
and whatever runs by the other is measured against it.
"""

import os
import platform
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from looprop.errors import InputError
from looprop.intercept.mode import InterceptMode

VARIABLE = "LOOPROP_PRODUCTS"
CHOICES = ("auto", "torch", "onednn")
# Of fewer rows, or with a smaller weight, there is nothing to gain: calling costs more than multiplying.
FEWEST_ROWS, SMALLEST_WEIGHT = 8, 128 * 128
# oneDNN keeps a kernel for each shape, and torch what it has prepared for it, 1,024 of each: of texts of all lengths
# that is a gigabyte. Read when oneDNN is first used; so many are as quick (docs/speed.md).
KEPT = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64", "LRU_CACHE_CAPACITY": "64"}
_SYSTEM = Path("/proc/cpuinfo")


def linear(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """x W' + b as `function`, torch's own, would give it: by oneDNN where that is quicker, else by torch itself.

    The gradient goes back to x alone: a weight or bias that is made of other tensors, which may be activations, is
    left to torch.
    """
    if not by_onednn():
        return function(*args, **kwargs)
    x, weight, bias = _parts(args, kwargs)
    if not _suits(x, weight, bias):
        return function(*args, **kwargs)
    if not (x.requires_grad and torch.is_grad_enabled()):
        return _multiply(x, weight, bias)
    return _Linear.apply(x, weight.detach(), None if bias is None else bias.detach())  # type: ignore[no-untyped-call]


def by_onednn() -> bool:
    """Do large products run by oneDNN here? The environment variable LOOPROP_PRODUCTS overrides what suits the
    processor: "torch" or "onednn".
    """
    return _chosen(os.environ.get(VARIABLE, "") or "auto")


@lru_cache(maxsize=4)
def _chosen(wanted: str) -> bool:
    if wanted not in CHOICES:
        raise InputError(f"{VARIABLE} must be one of {', '.join(CHOICES)}, got {wanted!r}")
    if wanted == "torch" or (wanted == "auto" and not _suits_processor()):
        return False
    for name, value in KEPT.items():
        os.environ.setdefault(name, value)
    return _works()


def _suits_processor() -> bool:
    return torch.backends.cpu.get_cpu_capability().startswith("AVX512") and "AMD" in _vendor()


def _vendor() -> str:
    """Who made the processor, as the system says it."""
    try:
        lines = _SYSTEM.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith("vendor_id")), "")


def _works() -> bool:
    """Is the operation there, which torch does not promise, and does it multiply, forwards and backwards?"""
    x, weight = torch.arange(12.0).view(3, 4), torch.arange(20.0).view(5, 4)  # whole numbers: nothing is rounded
    bias, gradient = torch.ones(5), torch.ones(3, 5)
    try:
        found = _multiply(x, weight, bias), _multiply(gradient, weight.t(), None)
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
    return torch.equal(found[0], x @ weight.t() + bias) and torch.equal(found[1], gradient @ weight)


def _parts(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
    given = {**dict(zip(("input", "weight", "bias"), args, strict=False)), **kwargs}
    return given.get("input"), given.get("weight"), given.get("bias")


def _suits(x: Any, weight: Any, bias: Any) -> bool:
    return (
        _plain(x)
        and _plain(weight)
        and _constant(weight)
        and (bias is None or _added_to_rows(bias, weight))
        and x.dim() >= 2
        and weight.dim() == 2
        and weight.numel() >= SMALLEST_WEIGHT
        and x.numel() >= FEWEST_ROWS * x.shape[-1]
        and x.shape[-1] == weight.shape[1]
        and not torch.is_autocast_enabled("cpu")
    )


def _plain(value: Any) -> bool:
    """A tensor of float32 in ordinary memory, and no subclass (quantised, distributed) that computes in its own way."""
    return (
        type(value) in (Tensor, torch.nn.Parameter)
        and value.dtype == torch.float32
        and value.device.type == "cpu"
        and value.layout == torch.strided
    )


def _constant(value: Tensor) -> bool:
    """Does no gradient have to go through it? Parameters get none here."""
    return not value.requires_grad or isinstance(value, torch.nn.Parameter)


def _added_to_rows(bias: Any, weight: Tensor) -> bool:
    """One number for each output, in one block: oneDNN reads memory from the first on, and heeds no strides."""
    return _plain(bias) and _constant(bias) and bias.shape == weight.shape[:1] and bias.is_contiguous()


def _multiply(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    found: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, weight, bias, "none", [], "")
    return found


class ProductsMode(InterceptMode):
    """Large products run by the quicker library; everything else is the model's own."""

    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the call gives."""
        return linear(function, args, kwargs) if name == "linear" else function(*args, **kwargs)


class _Linear(torch.autograd.Function):
    """g_x = g W. Nothing of x has to be kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(weight)
        return _multiply(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (weight,) = ctx.saved_tensors
        return _multiply(gradient.contiguous(), weight.t(), None), None, None

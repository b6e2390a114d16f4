"""Rewrites of products of activations.

By the time the product (a b) c is called, a b is one tensor like any other. So a mode inside the model's forward pass
notes on every product what it was made of, and looks at the notes of whatever is multiplied. A tensor that was changed
in place after its note was written is no longer that product: notes hold torch's count of such changes (its version).
Weights are left alone: a product with one is a linear layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from looprop.auditing.catalogue import CATALOGUE
from looprop.auditing.rewrites.modes import ModeRewrite, RewritingMode
from looprop.intercept.attention import AttentionCall
from looprop.intercept.operations import operation_name

_NOTE = "_looprop_product"
_MATRIX = frozenset({"matmul", "bmm", "mm"})


@dataclass(frozen=True)
class _Product:
    """How a tensor was made: left times right, as a matrix product or entry by entry.

    version: of the tensor when that was noted.
    """

    left: Tensor
    right: Tensor
    matrix: bool
    version: int


def _note(out: Any, left: Tensor, right: Tensor, *, matrix: bool) -> Any:
    setattr(out, _NOTE, _Product(left, right, matrix, _version(out)))
    return out


def _version(tensor: Tensor) -> int:
    """How often a tensor was changed in place; torch does not count in inference mode."""
    return -1 if tensor.is_inference() else tensor._version


def _noted(value: Any) -> _Product | None:
    """How a tensor was made, if it is a product still."""
    note: _Product | None = getattr(value, _NOTE, None) if isinstance(value, Tensor) else None
    return note if note is not None and note.version == _version(value) else None


@dataclass(frozen=True)
class _Factors:
    """Two activations that are about to be multiplied, as matrices or entry by entry."""

    left: Tensor
    right: Tensor
    matrix: bool

    def made_of(self, factor: Tensor) -> _Product | None:
        """How one of them was made, if by a product of the same kind."""
        note = _noted(factor)
        return note if note is not None and note.matrix == self.matrix else None


def _factors(name: str, function: Any, args: tuple[Any, ...]) -> _Factors | None:
    """What a call multiplies; None where that is a parameter or a number, where it works in place, and for any other
    call.
    """
    if name not in _MATRIX | {"mul"} or len(args) < 2 or _in_place(function):
        return None
    left, right = args[0], args[1]
    if not (_is_activation(left) and _is_activation(right)):
        return None
    matrix = name != "mul"
    return None if matrix and (left.dim() < 2 or right.dim() < 2) else _Factors(left, right, matrix)


def _in_place(function: Any) -> bool:
    return operation_name(function)[1]


def _is_activation(value: Any) -> bool:
    return isinstance(value, Tensor) and not isinstance(value, nn.Parameter) and value.is_floating_point()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or (
        isinstance(value, Tensor) and value.dim() == 0 and not value.requires_grad
    )


class _Reassociating(RewritingMode):
    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name == "einsum" and sum(isinstance(a, Tensor) and not isinstance(a, nn.Parameter) for a in args) > 1:
            self.note_left("products written as einsum are not taken apart")
        factors = _factors(name, function, args)
        if factors is None:
            out = function(*args, **kwargs)
            if name in ("div", "mul") and isinstance(out, Tensor) and len(args) == 2:
                _pass_on(function, out, args)
            return out
        left, right, matrix = factors.left, factors.right, factors.matrix
        if (product := factors.made_of(left)) is not None:
            self.note_change()
            inner = function(product.right, right)
            return _note(function(product.left, inner), product.left, inner, matrix=matrix)
        if (product := factors.made_of(right)) is not None:
            self.note_change()
            inner = function(left, product.left)
            return _note(function(inner, product.right), inner, product.right, matrix=matrix)
        return _note(function(left, right, **kwargs), left, right, matrix=matrix)


def _pass_on(function: Any, out: Tensor, args: tuple[Any, ...]) -> None:
    """A product times a number is a product still: its first factor takes the number when it is taken apart."""
    product = _noted(args[0])
    if product is not None and _is_number(args[1]):
        _note(out, function(product.left, args[1]), product.right, matrix=product.matrix)


class _ScaleMoving(RewritingMode):
    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name == "scaled_dot_product_attention":
            self.note_change()
            return _scaled_queries(function, args, kwargs)
        if name == "multi_head_attention_forward":
            self.note_left("the inside of nn.MultiheadAttention is torch's own")
        if name in ("mul", "div") and not _in_place(function) and len(args) == 2 and _is_number(args[1]):
            product = _noted(args[0])
            if product is not None:
                self.note_change()
                scaled = function(product.left, args[1])
                return scaled @ product.right if product.matrix else scaled * product.right
        factors = _factors(name, function, args)
        out = function(*args, **kwargs)
        return out if factors is None else _note(out, factors.left, factors.right, matrix=factors.matrix)


def _scaled_queries(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A fused attention whose scale is taken by the queries beforehand."""
    call = AttentionCall.parse(0, args, kwargs)
    scale = call.query.shape[-1] ** -0.5 if call.scale is None else call.scale
    return call.but(query=call.query * scale, scale=1.0).run()


class Reassociated(ModeRewrite):
    """(a b) c = a (b c), for products of activations one upon the other, with nothing but a number between them."""

    name = "reassociated"
    summary = CATALOGUE[name].summary
    mode = _Reassociating


class ScaleMoved(ModeRewrite):
    """c (a b) = (c a) b: the scale of attention scores moved into the queries."""

    name = "scale-moved"
    summary = CATALOGUE[name].summary
    mode = _ScaleMoving

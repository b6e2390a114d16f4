"""Rewrites of products of activations.

By the time the product (a b) c is called, a b is one tensor like any other. So a mode inside the model's forward pass
notes on every product what it was made of, and looks at the notes of whatever is multiplied. A tensor that was changed
in place after its note was written is no longer that product: notes hold torch's count of such changes (its version).
Weights are left alone: a product with one is a linear layer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    """Two activations that are multiplied, as matrices or entry by entry.

    version: how often the result had been changed in place when it was noted.
    """

    left: Tensor
    right: Tensor
    matrix: bool
    version: int = -1

    def note(self, out: Any) -> Any:
        """Note on a tensor that it is this product."""
        setattr(out, _NOTE, replace(self, version=_version(out)))
        return out

    def inner(self, factor: Tensor) -> _Product | None:
        """The product that one of the two is, if it is one of the same kind."""
        note = _noted(factor)
        return note if note is not None and note.matrix == self.matrix else None


def _version(tensor: Tensor) -> int:
    """How often a tensor was changed in place; torch does not count in inference mode."""
    return -1 if tensor.is_inference() else tensor._version


def _noted(value: Any) -> _Product | None:
    """The product that a tensor is, if it has not been changed since."""
    note: _Product | None = getattr(value, _NOTE, None) if isinstance(value, Tensor) else None
    return note if note is not None and note.version == _version(value) else None


def _product(name: str, function: Any, args: tuple[Any, ...]) -> _Product | None:
    """The two activations that a call multiplies; None for any other call, one in place included."""
    if name not in _MATRIX | {"mul"} or len(args) < 2 or _in_place(function):
        return None
    left, right = args[0], args[1]
    if not (_is_activation(left) and _is_activation(right)):
        return None
    matrix = name != "mul"
    return None if matrix and (left.dim() < 2 or right.dim() < 2) else _Product(left, right, matrix)


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
        product = _product(name, function, args)
        if product is None:
            out = function(*args, **kwargs)
            # A product times a number is a product still: its first factor takes the number when it is taken apart.
            if name in ("div", "mul") and len(args) == 2 and (before := _noted(args[0])) and _is_number(args[1]):
                replace(before, left=function(before.left, args[1])).note(out)
            return out
        left, right = product.left, product.right
        if (first := product.inner(left)) is not None:
            self.note_change()
            left, right = first.left, function(first.right, right)
        elif (second := product.inner(right)) is not None:
            self.note_change()
            left, right = function(left, second.left), second.right
        else:
            return product.note(function(left, right, **kwargs))
        return replace(product, left=left, right=right).note(function(left, right))


class _ScaleMoving(RewritingMode):
    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name == "scaled_dot_product_attention":
            self.note_change()
            return _scaled_queries(function, args, kwargs)
        if name == "multi_head_attention_forward":
            self.note_left("the inside of nn.MultiheadAttention is torch's own")
        by_number = name in ("mul", "div") and not _in_place(function) and len(args) == 2 and _is_number(args[1])
        if by_number and (product := _noted(args[0])) is not None:
            self.note_change()
            scaled = function(product.left, args[1])
            return scaled @ product.right if product.matrix else scaled * product.right
        multiplied = _product(name, function, args)
        out = function(*args, **kwargs)
        return out if multiplied is None else multiplied.note(out)


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

"""Rewrites of products of activations. A mode inside the model's forward pass remembers how each product was made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from looprop.auditing.rewrites.base import Model, Places, Rewrite
from looprop.auditing.rewrites.changes import Changes
from looprop.intercept.attention import AttentionCall
from looprop.intercept.operations import operation_name
from looprop.propagation.location import module_path

_NOTE = "_looprop_product"
_MATRIX = frozenset({"matmul", "bmm", "mm"})


@dataclass(frozen=True)
class _Product:
    """How a tensor was made: left times right, as a matrix product or entry by entry; version: of the tensor when it
    was noted.
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


def _product(value: Any, *, matrix: bool) -> _Product | None:
    note: _Product | None = getattr(value, _NOTE, None) if isinstance(value, Tensor) else None
    return note if note is not None and note.matrix == matrix and note.version == _version(value) else None


def _factors(name: str, args: tuple[Any, ...]) -> tuple[Tensor, Tensor, bool] | None:
    """Two tensors that are multiplied and that are no parameters: (left, right, whether as matrices)."""
    if name not in _MATRIX | {"mul"} or len(args) < 2:
        return None
    left, right = args[0], args[1]
    if not all(
        isinstance(t, Tensor) and not isinstance(t, nn.Parameter) and t.is_floating_point() for t in (left, right)
    ):
        return None
    matrix = name != "mul"
    return None if matrix and (left.dim() < 2 or right.dim() < 2) else (left, right, matrix)


class _Mode(TorchFunctionMode):
    """places: filled while the first forward pass runs."""

    def __init__(self, root: nn.Module, places: Places) -> None:
        super().__init__()
        self.root, self.places = root, places

    def changed(self) -> None:
        self.places.changed.append(module_path(self.root))

    def left(self, reason: str) -> None:
        self.places.leave(module_path(self.root), reason)


class _Reassociating(_Mode):
    def __torch_function__(
        self, function: Any, types_: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name, in_place = operation_name(function)
        if name == "einsum" and sum(isinstance(a, Tensor) and not isinstance(a, nn.Parameter) for a in args) > 1:
            self.left("products written as einsum are not taken apart")
        factors = None if in_place else _factors(name, args)
        if factors is None:
            out = function(*args, **kwargs)
            if name in ("div", "mul") and isinstance(out, Tensor) and len(args) == 2:
                self._scaled(function, out, args)
            return out
        left, right, matrix = factors
        before, after = _product(left, matrix=matrix), _product(right, matrix=matrix)
        if before is not None:
            self.changed()
            inner = function(before.right, right)
            return _note(function(before.left, inner), before.left, inner, matrix=matrix)
        if after is not None:
            self.changed()
            inner = function(left, after.left)
            return _note(function(inner, after.right), inner, after.right, matrix=matrix)
        return _note(function(left, right, **kwargs), left, right, matrix=matrix)

    def _scaled(self, function: Any, out: Tensor, args: tuple[Any, ...]) -> None:
        """A product times a number is a product still: its first factor takes the number when it is taken apart."""
        note = getattr(args[0], _NOTE, None)
        if isinstance(note, _Product) and note.version == _version(args[0]) and _is_number(args[1]):
            _note(out, function(note.left, args[1]), note.right, matrix=note.matrix)


class _ScaleMoving(_Mode):
    def __torch_function__(
        self, function: Any, types_: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name, in_place = operation_name(function)
        if name == "scaled_dot_product_attention":
            self.changed()
            call = AttentionCall.parse(0, args, kwargs)
            scale = call.query.shape[-1] ** -0.5 if call.scale is None else call.scale
            return function(
                call.query * scale,
                call.key,
                call.value,
                attn_mask=call.mask,
                is_causal=call.causal,
                scale=1.0,
                enable_gqa=call.grouped,
            )
        if name == "multi_head_attention_forward":
            self.left("the inside of nn.MultiheadAttention is torch's own")
        if name in ("mul", "div") and not in_place and len(args) == 2 and _is_number(args[1]):
            note = _product(args[0], matrix=True) or _product(args[0], matrix=False)
            if note is not None:
                self.changed()
                scaled = function(note.left, args[1])
                return scaled @ note.right if note.matrix else scaled * note.right
        factors = None if in_place else _factors(name, args)
        out = function(*args, **kwargs)
        return out if factors is None else _note(out, factors[0], factors[1], matrix=factors[2])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or (
        isinstance(value, Tensor) and value.dim() == 0 and not value.requires_grad
    )


class _ModeRewrite(Rewrite):
    """A rewrite by a mode: its places are those of the pass that it is tried on."""

    mode: type[_Mode]

    def apply(self, model: Model, changes: Changes) -> Places:
        first = Places()
        # Later passes run with a list of places that nobody reads: each makes the same changes again.
        lists = iter([first])
        changes.run_under(model.module, lambda: self.mode(model.module, next(lists, Places())))
        model.run()
        return Places(first.changed, list(dict.fromkeys(first.unsupported)))


class Reassociated(_ModeRewrite):
    """(a b) c = a (b c), for products of activations one upon the other, with nothing but a number between them."""

    name = "reassociated"
    summary = "consecutive products in the other order: (a b) c as a (b c)"
    mode = _Reassociating


class ScaleMoved(_ModeRewrite):
    """c (a b) = (c a) b: the scale of attention scores moved into the queries."""

    name = "scale-moved"
    summary = "the scale of a product of two activations moved into its first factor"
    mode = _ScaleMoving

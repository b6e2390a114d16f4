"""Rewrites that change what a model calls while it runs, instead of its weights: products, and fused attention.

A mode stands inside the model's forward pass and answers some calls in another way. Which calls those are is known only
when a pass has run. So one pass is tried, and the places met in it are those of the rewrite; every later pass makes the
same changes again.

Products of activations: by the time the product (a b) c is called, a b is one tensor like any other. So the mode notes
on every product what it was made of, and looks at the notes of whatever is multiplied. A tensor that was changed in
place after its note was written is no longer that product: notes hold torch's count of such changes (its version).
Weights are left alone: a product with one is a linear layer.

Fused against written-out attention: three kinds of models need three ways. A model of the transformers library that
writes attention out is told to call the fused kernel. torch's own nn.MultiheadAttention writes attention out when its
weights are asked for. Every other fused call is met by a mode, and written out there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from torch import Tensor, nn

from looprop.auditing.rewrites.base import Changes, Model, Places, Rewrite
from looprop.intercept.attention import AttentionCall
from looprop.intercept.mode import InterceptMode
from looprop.intercept.operations import operation_name
from looprop.propagation.location import module_path


class RewritingMode(InterceptMode):
    """Answers calls in another way, and notes where. root: the model, whose modules give places their names."""

    def __init__(self, root: nn.Module, places: Places) -> None:
        super().__init__()
        self.root, self.places = root, places

    def note_change(self) -> None:
        """The call that is being answered is changed."""
        self.places.changed.append(module_path(self.root))

    def note_left(self, reason: str) -> None:
        """The call that is being answered is left as it is."""
        self.places.leave(module_path(self.root), reason)


class ModeRewrite(Rewrite):
    """A rewrite by nothing but a mode."""

    mode: ClassVar[type[RewritingMode]]

    def apply(self, model: Model, changes: Changes) -> Places:
        return run_under(self.mode, model, changes)


def run_under(mode: type[RewritingMode], model: Model, changes: Changes) -> Places:
    """Every forward pass runs under such a mode; the places are those of one pass that is tried now."""
    tried = Places()
    # Later passes note their places where nobody reads them.
    lists = iter([tried])
    changes.run_under(model.module, lambda: mode(model.module, next(lists, Places())))
    model.run()
    return Places(tried.changed, list(dict.fromkeys(tried.unsupported)))


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
    if name not in _MATRIX | {"mul"} or len(args) < 2 or operation_name(function)[1]:
        return None
    left, right = args[0], args[1]
    if not (_is_activation(left) and _is_activation(right)):
        return None
    matrix = name != "mul"
    return None if matrix and (left.dim() < 2 or right.dim() < 2) else _Product(left, right, matrix)


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
            call = AttentionCall.parse(0, args, kwargs)
            scale = call.query.shape[-1] ** -0.5 if call.scale is None else call.scale
            return call.but(query=call.query * scale, scale=1.0).run()
        if name == "multi_head_attention_forward":
            self.note_left("the inside of nn.MultiheadAttention is torch's own")
        in_place = operation_name(function)[1]
        by_number = name in ("mul", "div") and not in_place and len(args) == 2 and _is_number(args[1])
        if by_number and (product := _noted(args[0])) is not None:
            self.note_change()
            scaled = function(product.left, args[1])
            return scaled @ product.right if product.matrix else scaled * product.right
        multiplied = _product(name, function, args)
        out = function(*args, **kwargs)
        return out if multiplied is None else multiplied.note(out)


class Reassociated(ModeRewrite):
    """(a b) c = a (b c), for products of activations one upon the other, with nothing but a number between them."""

    name = "reassociated"
    mode = _Reassociating


class ScaleMoved(ModeRewrite):
    """c (a b) = (c a) b: the scale of attention scores moved into the queries."""

    name = "scale-moved"
    mode = _ScaleMoving


FUSED = "scaled_dot_product_attention"


class AttentionUnfused(Rewrite):
    """softmax(Q K^T / sqrt(d) + mask) V as one call, or written out: whichever the model does not use."""

    name = "attention-unfused"

    def apply(self, model: Model, changes: Changes) -> Places:
        root = model.module
        implementation = getattr(getattr(root, "config", None), "_attn_implementation", None)
        if implementation == "eager" and hasattr(root, "set_attn_implementation"):
            return _fuse(model, changes)
        places = Places()
        for module, name in model.observed.names.items():
            if isinstance(module, nn.MultiheadAttention) and model.observed.calls[module]:
                changes.set_forward(module, _with_weights(module))
                places.changed.append(name)
        places.changed += run_under(_Unfusing, model, changes).changed
        if model.sites and not places.changed:
            places.leave("attention", "it is written out by the model itself, and cannot be told to be fused")
        return places


def _fuse(model: Model, changes: Changes) -> Places:
    root: Any = model.module
    places = Places()
    try:
        root.set_attn_implementation("sdpa")
    except (ValueError, ImportError, KeyError, NotImplementedError) as error:
        places.leave("attention", f"the library has no fused form for it ({str(error).splitlines()[0][:120]})")
        return places
    changes.then(lambda: root.set_attn_implementation("eager"))
    with _Counting(root, Places()) as counting:
        model.run()
    places.changed += [f"attention site {n + 1}" for n in range(len(counting.places.changed))]
    if not places.changed:
        places.leave("attention", "told to be fused, it is still written out")
    return places


class _Counting(RewritingMode):
    """Notes fused calls, and changes nothing."""

    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name == FUSED:
            self.note_change()
        return function(*args, **kwargs)


def _with_weights(module: nn.MultiheadAttention) -> Any:
    """torch writes attention out where its weights are asked for."""
    before = module.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        kwargs["need_weights"] = True
        return before(*args, **kwargs)

    return forward


class _Unfusing(RewritingMode):
    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name != FUSED:
            return function(*args, **kwargs)
        self.note_change()
        return AttentionCall.parse(0, args, kwargs).written()

"""Fused against written-out attention: the same sums, in one call of torch or in several.

Three kinds of models need three ways. A model of the transformers library that writes attention out is told to call the
fused kernel. torch's own nn.MultiheadAttention writes attention out when its weights are asked for. Every other fused
call is met by a mode while the model runs, and written out there.
"""

from typing import Any

from torch import nn

from looprop.auditing.catalogue import CATALOGUE
from looprop.auditing.rewrites.base import Model, Places, Rewrite
from looprop.auditing.rewrites.changes import Changes
from looprop.auditing.rewrites.modes import RewritingMode, run_under
from looprop.intercept.attention import AttentionCall

FUSED = "scaled_dot_product_attention"


class AttentionUnfused(Rewrite):
    """softmax(Q K^T / sqrt(d) + mask) V as one call, or written out: whichever the model does not use."""

    name = "attention-unfused"
    summary = CATALOGUE[name].summary

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

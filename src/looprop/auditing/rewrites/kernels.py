"""Fused against written-out attention: the same sums, in one call of torch or in several.

Three kinds of models need three ways. A model of the transformers library that writes attention out is told to call the
fused kernel. torch's own nn.MultiheadAttention writes attention out when its weights are asked for. Every other fused
call is met by a mode while the model runs, and written out there.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from looprop.auditing.rewrites.base import Model, Places, Rewrite
from looprop.auditing.rewrites.changes import Changes
from looprop.auditing.rewrites.modes import RewritingMode, run_under
from looprop.intercept.attention import additive_mask
from looprop.intercept.mode import InterceptMode
from looprop.intercept.sites import FusedCall, fused_call

FUSED = "scaled_dot_product_attention"


class AttentionUnfused(Rewrite):
    """softmax(Q K^T / sqrt(d) + mask) V as one call, or written out: whichever the model does not use."""

    name = "attention-unfused"
    summary = "fused attention written out, written-out attention fused"

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
    with _Counting() as counting:
        model.run()
    if counting.fused:
        places.changed += [f"attention site {n + 1}" for n in range(counting.fused)]
    else:
        places.leave("attention", "told to be fused, it is still written out")
    return places


class _Counting(InterceptMode):
    """Counts fused calls, and changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.fused = 0

    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.fused += name == FUSED
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
        return _written(fused_call(0, args, kwargs))


def _written(call: FusedCall) -> Tensor:
    """What a fused call computes, written out."""
    query, key, value = call.query, call.key, call.value
    if call.grouped:
        groups = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
    scale = call.scale if call.scale is not None else 1.0 / math.sqrt(query.shape[-1])
    scores = torch.matmul(query, key.transpose(-2, -1)) * scale
    added = additive_mask(call.mask, call.causal, query.shape[-2], key.shape[-2], query)
    if added is not None:
        # A row without any key is a row of padding, which nobody reads: a very low number keeps it a number.
        scores = scores + added.clamp(min=torch.finfo(added.dtype).min)
    return torch.matmul(torch.softmax(scores, dim=-1), value)

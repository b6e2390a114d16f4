"""Eager against fused attention: the same sums, one call or several."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from looprop.auditing.rewrites.base import Model, Places, Rewrite
from looprop.auditing.rewrites.changes import Changes
from looprop.intercept.attention import AttentionCall, additive_mask
from looprop.propagation.location import module_path


class AttentionUnfused(Rewrite):
    """softmax(Q K^T / sqrt(d) + mask) V as one call, or written out: whichever the model does not use."""

    name = "attention-unfused"
    summary = "fused attention written out, written-out attention fused"

    def apply(self, model: Model, changes: Changes) -> Places:
        places = Places()
        root = model.module
        now = getattr(getattr(root, "config", None), "_attn_implementation", None)
        if now == "eager" and hasattr(root, "set_attn_implementation"):
            return _fused(model, changes)
        for module, name in model.observed.names.items():
            if isinstance(module, nn.MultiheadAttention) and model.observed.calls[module]:
                changes.set_forward(module, _with_weights(module))
                places.changed.append(name)
        met: list[str] = []
        lists = iter([met])
        changes.run_under(root, lambda: _Unfusing(root, next(lists, [])))
        model.run()
        places.changed += met
        if model.sites and not places.changed:
            places.leave("attention", "it is written out by the model itself, and cannot be told to be fused")
        return places


def _fused(model: Model, changes: Changes) -> Places:
    root: Any = model.module
    places = Places()
    try:
        root.set_attn_implementation("sdpa")
    except (ValueError, ImportError, KeyError, NotImplementedError) as error:
        places.leave("attention", f"the library has no fused form for it ({str(error).splitlines()[0][:120]})")
        return places
    changes.then(lambda: root.set_attn_implementation("eager"))
    count = _Counting()
    with count:
        model.run()
    if count.met:
        places.changed += [f"attention site {n + 1}" for n in range(count.met)]
    else:
        places.leave("attention", "told to be fused, it is still written out")
    return places


class _Counting(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.met = 0

    def __torch_function__(
        self, function: Any, types_: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.met += getattr(function, "__name__", "") == "scaled_dot_product_attention"
        return function(*args, **(kwargs or {}))


def _with_weights(module: nn.MultiheadAttention) -> Any:
    """torch writes attention out where its weights are asked for."""
    before = module.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        kwargs["need_weights"] = True
        return before(*args, **kwargs)

    return forward


class _Unfusing(TorchFunctionMode):
    def __init__(self, root: nn.Module, met: list[str]) -> None:
        super().__init__()
        self.root, self.met = root, met

    def __torch_function__(
        self, function: Any, types_: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if getattr(function, "__name__", "") != "scaled_dot_product_attention":
            return function(*args, **(kwargs or {}))
        self.met.append(module_path(self.root))
        call = AttentionCall.parse(0, args, kwargs or {})
        key, value = call.key, call.value
        if call.grouped:
            groups = call.query.shape[-3] // key.shape[-3]
            key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
        return _written(call.query, key, value, call.scale, call.mask, call.causal)


def _written(
    query: Tensor, key: Tensor, value: Tensor, scale: float | None, mask: Tensor | None, causal: bool
) -> Tensor:
    scores = torch.matmul(query, key.transpose(-2, -1)) * (
        scale if scale is not None else 1.0 / math.sqrt(query.shape[-1])
    )
    added = additive_mask(mask, causal, query.shape[-2], key.shape[-2], query)
    if added is not None:
        # A row without any key is a row of padding, which nobody reads: a very low number keeps it a number.
        scores = scores + added.clamp(min=torch.finfo(added.dtype).min)
    return torch.matmul(torch.softmax(scores, dim=-1), value)

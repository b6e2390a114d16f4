"""Attention sites without rules: bar keys, or supply other keys and values, while a model predicts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from looprop.errors import ModelError
from looprop.intercept.operations import operation_name


@dataclass(frozen=True)
class FusedCall:
    """The arguments of one scaled_dot_product_attention: query (B, H, R, d), key and value (B, H', T, d)."""

    layer: int
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    causal: bool
    scale: float | None
    grouped: bool

    def run(self) -> Tensor:
        """What the site answers."""
        return torch.nn.functional.scaled_dot_product_attention(
            self.query,
            self.key,
            self.value,
            attn_mask=self.mask,
            is_causal=self.causal,
            scale=self.scale,
            enable_gqa=self.grouped,
        )


@dataclass(frozen=True)
class WrittenSite:
    """What to answer in place of an attention that is written out as matmul, softmax, matmul.

    weights: (layer, query, key) -> weights, asked at the softmax. values: (layer, weights, value) -> output.
    """

    weights: Callable[[int, Tensor, Tensor], Tensor]
    values: Callable[[int, Tensor, Tensor], Tensor]


class SiteMode(TorchFunctionMode):
    """Runs a model with its attention sites altered. Patches nothing.

    fused: answers a fused call in the model's place; written: the same for attention that is written out.
    scores: changes the scores (B, ..., R, T) before a written-out softmax.
    positions: an embedding table and the row numbers to look up in it, for models that take no position ids.
    embedded: changes the embedded sequence (B, T, D) where it goes through the dropout that ends the embedding.
    """

    def __init__(
        self,
        *,
        fused: Callable[[FusedCall], Tensor] | None = None,
        written: WrittenSite | None = None,
        scores: Callable[[int, Tensor], Tensor] | None = None,
        positions: tuple[Tensor, Tensor] | None = None,
        embedded: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.fused, self.written, self.scores, self.positions, self.embedded = (
            fused,
            written,
            scores,
            positions,
            embedded,
        )
        self.met = 0
        # The last product of a written-out attention (queries, keys), and the weights made of it.
        self._product: tuple[Tensor, Tensor] | None = None
        self._weights: Tensor | None = None

    def __torch_function__(
        self, function: Any, types_: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if name == "scaled_dot_product_attention" and self.fused is not None:
            self.met += 1
            return self.fused(fused_call(self.met, args, kwargs))
        if self.written is not None and name in ("matmul", "__matmul__", "softmax", "dropout"):
            return self._written(self.written, name, function, args, kwargs)
        if self.scores is not None and operation_name(function)[0] == "softmax" and args[0].dim() >= 3:
            self.met += 1
            return function(self.scores(self.met, args[0]), *args[1:], **kwargs)
        if name == "embedding" and self.positions is not None and len(args) > 1 and args[1] is self.positions[0]:
            return function(self.positions[1], *args[1:], **kwargs)
        if name == "dropout" and self.embedded is not None and args[0].dim() == 3:
            change, self.embedded = self.embedded, None
            return change(args[0])
        return function(*args, **kwargs)

    def _written(
        self, site: WrittenSite, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if name == "dropout":
            if self.embedded is not None and args[0].dim() == 3:
                change, self.embedded = self.embedded, None
                return change(args[0])
            return args[0]
        if name == "softmax":
            if self._product is None:
                return function(*args, **kwargs)
            self.met += 1
            self._weights, self._product = site.weights(self.met, *self._product), None
            return self._weights
        left, right = args[0], args[1]
        if self._weights is not None and left is self._weights:
            self._weights = None
            return site.values(self.met, left, right)
        if left.dim() == 4 and right.dim() == 4:
            self._product = (left, right.transpose(-2, -1))
        return function(*args, **kwargs)


def fused_call(layer: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> FusedCall:
    """The arguments of a call of scaled_dot_product_attention, by name."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    return FusedCall(
        layer,
        given["query"],
        given["key"],
        given["value"],
        given.get("attn_mask"),
        bool(given.get("is_causal", False)),
        given.get("scale"),
        bool(given.get("enable_gqa", False)),
    )


def barring(barred: Tensor) -> SiteMode:
    """A mode that bars keys at every attention site: barred (B, T) is True for keys that no row may read."""

    def block(scores_shape: tuple[int, ...], like: Tensor) -> Tensor:
        """What bars the keys in scores (B, ..., T)."""
        if (scores_shape[0], scores_shape[-1]) != barred.shape:
            raise ModelError(
                f"an attention site has scores of shape {scores_shape}: keys cannot be barred unless they are (batch, "
                "..., positions), "
                f"here ({len(barred)}, ..., {barred.shape[1]})"
            )
        flags = barred.view(len(barred), *[1] * (len(scores_shape) - 2), -1)
        return torch.zeros(flags.shape, dtype=like.dtype, device=like.device).masked_fill_(flags, -math.inf)

    def fused(call: FusedCall) -> Tensor:
        rows, columns = call.query.shape[-2], call.key.shape[-2]
        total = block((*call.query.shape[:-1], columns), call.query)
        if call.mask is not None and call.mask.dtype == torch.bool:
            total = total.masked_fill(~call.mask, -math.inf)
        elif call.mask is not None:
            total = total + call.mask
        if call.causal:
            later = torch.ones(rows, columns, dtype=torch.bool, device=total.device).triu(1)
            total = total.masked_fill(later, -math.inf)
        return FusedCall(call.layer, call.query, call.key, call.value, total, False, call.scale, call.grouped).run()

    return SiteMode(fused=fused, scores=lambda layer, scores: scores + block(tuple(scores.shape), scores))

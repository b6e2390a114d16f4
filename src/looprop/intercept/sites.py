"""Attention sites answered in the model's place while it predicts: keys barred, or other keys and values supplied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from looprop.errors import ModelError
from looprop.intercept.attention import AttentionCall, additive_mask, barred_scores
from looprop.intercept.mode import InterceptMode

# The operations of which written-out attention is made.
_PARTS = ("matmul", "bmm", "baddbmm", "softmax", "dropout")


@dataclass(frozen=True)
class WrittenSite:
    """What to answer in place of an attention that is written out as matmul, softmax, matmul.

    weights: (layer, query, key) -> weights, asked at the softmax. values: (layer, weights, value) -> output.
    """

    weights: Callable[[int, Tensor, Tensor], Tensor]
    values: Callable[[int, Tensor, Tensor], Tensor]


class SiteMode(InterceptMode):
    """Runs a model with its attention sites altered.

    fused: answers a fused call in the model's place. written: the same for attention that is written out.
    scores: changes the scores (B, ..., R, T) before a written-out softmax.
    """

    def __init__(
        self,
        *,
        fused: Callable[[AttentionCall], Tensor] | None = None,
        written: WrittenSite | None = None,
        scores: Callable[[int, Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.fused, self.written, self.scores = fused, written, scores
        self.met = 0
        # Of a written-out site that was begun: what its scores are made of, then its weights.
        self._product: tuple[Tensor, Tensor] | None = None
        self._weights: Tensor | None = None

    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not args and name in _PARTS:
            args = tuple(kwargs[key] for key in ("input", "other") if key in kwargs)
            kwargs = {key: value for key, value in kwargs.items() if key not in ("input", "other")}
        if name == "scaled_dot_product_attention" and self.fused is not None:
            self.met += 1
            return self.fused(AttentionCall.parse(self.met, args, kwargs))
        if self.written is not None and name in _PARTS:
            return self._answer_written(self.written, name, function, args, kwargs)
        if self.scores is not None and name == "softmax" and args[0].dim() >= 3:
            self.met += 1
            return function(self.scores(self.met, args[0]), *args[1:], **kwargs)
        return function(*args, **kwargs)

    def _answer_written(
        self, site: WrittenSite, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if name == "dropout":
            return args[0]
        if name == "softmax":
            if self._product is None:
                return function(*args, **kwargs)
            self.met += 1
            weights = site.weights(self.met, *self._product)  # (N, H, k, T)
            self._weights = weights.flatten(0, 1) if args[0].dim() == 3 else weights
            self._product = None
            return self._weights
        left, right = args[1:3] if name == "baddbmm" else args[:2]
        if self._weights is not None and _same_memory(left, self._weights):
            self._weights = None
            return site.values(self.met, left, right)
        if left.dim() == right.dim() == (4 if name == "matmul" else 3):
            self._product = (left, right.transpose(-2, -1))
        return function(*args, **kwargs)


def _same_memory(left: Tensor, right: Tensor) -> bool:
    """Is one the other, the other in another shape, or the other without its last column (a sink's)?"""
    alike = left.numel() == right.numel() or (*left.shape[:-1], left.shape[-1] + 1) == right.shape
    return alike and left.data_ptr() == right.data_ptr()


def barring(barred: Tensor) -> SiteMode:
    """A mode that bars keys at every attention site: barred (B, T) is True for keys that no row may read."""

    def block(scores_shape: tuple[int, ...], like: Tensor) -> Tensor:
        """What bars the keys in scores (B, ..., T)."""
        if (scores_shape[0], scores_shape[-1]) != barred.shape:
            raise ModelError(
                f"an attention site has scores of shape {scores_shape}: keys cannot be barred unless they are "
                f"(batch, ..., positions), here ({len(barred)}, ..., {barred.shape[1]})"
            )
        return barred_scores(barred.view(len(barred), *[1] * (len(scores_shape) - 2), -1), like)

    def fused(call: AttentionCall) -> Tensor:
        total = block((*call.query.shape[:-1], call.key.shape[-2]), call.query)
        for mask, causal in ((call.mask, False), (None, call.causal)):
            added = additive_mask(mask, causal, call.query.shape[-2], call.key.shape[-2], call.query)
            total = total if added is None else total + added
        return call.but(mask=total, causal=False).run()

    return SiteMode(fused=fused, scores=lambda layer, scores: scores + block(tuple(scores.shape), scores))

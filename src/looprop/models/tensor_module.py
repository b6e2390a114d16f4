"""Any module on a float tensor: every element of the input is one position."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from looprop.errors import InputError, ModelError
from looprop.models.adapter import Adapter
from looprop.models.encoded import Encoded

# Elements of a plain tensor that count as one position.
ELEMENTS = 256


class _Function(nn.Module):
    """A plain function as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class TensorModule(Adapter):
    """A module, or a plain function, that maps (B, ...) to (B,) or (B, C)."""

    noun, tokens, explained_input = "tensors", False, "x"

    def __init__(self, module: nn.Module | Callable[[Tensor], Tensor], *, name: str = "") -> None:
        model = module if isinstance(module, nn.Module) else _Function(module)
        own = name or getattr(module, "__name__", type(module).__name__)
        super().__init__(model, name=own, check=any(True for _ in model.parameters()))

    def encode(self, item: Any, *, truncation: bool = False) -> Encoded:
        """One row of a float tensor, without its batch dimension."""
        if not isinstance(item, Tensor) or not item.is_floating_point():
            raise InputError(
                f"the input must be a floating-point tensor, got {getattr(item, 'dtype', type(item).__name__)}"
            )
        if item.numel() == 0:
            raise InputError(f"the input is empty: shape {tuple(item.shape)}")
        if item.dtype in (torch.float16, torch.bfloat16) and item.device.type == "cpu":
            raise InputError(
                f"the input is in {item.dtype} on a CPU, where its rounding spoils relevance: use x.float()"
            )
        if not torch.isfinite(item).all():
            raise InputError("the input holds NaN or infinite values")
        names = tuple(str(i) for i in range(item.numel()))
        none, flags = (None,) * len(names), (False,) * len(names)
        return Encoded({"x": item.detach()[None]}, names, "", none, flags, none)

    def forward(self, inputs: Mapping[str, Tensor], *, positions: int = 1) -> Tensor:
        """Logits (B, 1, C); a module that returns (B,) has one class."""
        logits = self.model(inputs["x"].clone())  # a copy, which the module may change in place
        if not isinstance(logits, Tensor) or logits.dim() not in (1, 2) or len(logits) != len(inputs["x"]):
            shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise ModelError(
                f"{self.name} must map (B, ...) to (B,) or (B, C), got {shape} for a batch of {len(inputs['x'])}"
            )
        return logits[:, None, None] if logits.dim() == 1 else logits[:, None]

    def batch_positions(self, encoded: Encoded) -> int:
        return max(1, len(encoded) // ELEMENTS)

    def token_scores(self, relevance: Tensor) -> Tensor:
        return relevance.flatten(1)

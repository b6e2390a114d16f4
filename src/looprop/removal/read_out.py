"""Nobody reads the last layer's other rows: after its attention only the read-out goes on."""

from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from looprop.engine.operations import operation_name


class ReadOutMode(TorchFunctionMode):
    """Cuts the sequence to its read-out where the last attention site's answer meets the residual stream. Patches nothing.

    sites: how many attention sites the model has. rows: the rows that are read off.
    """

    def __init__(self, sites: int, rows: slice) -> None:
        super().__init__()
        self.left, self.rows, self.cut = sites, rows, False

    def __torch_function__(self, function: Any, types_: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        out = function(*args, **(kwargs or {}))
        if self.cut:
            return out
        if self.left:
            name = getattr(function, "__name__", "")
            self.left -= name == "scaled_dot_product_attention" or (name == "softmax" and args[0].dim() == 4)
        elif is_residual_sum(function, args):
            self.cut = True
            return out[:, self.rows]
        return out


def is_residual_sum(function: Any, args: tuple[Any, ...]) -> bool:
    """Are two streams (B, R, D) added?"""
    if operation_name(function)[0] != "add" or len(args) < 2 or not isinstance(args[0], Tensor) or not isinstance(args[1], Tensor):
        return False
    return args[0].dim() == 3 and args[0].shape == args[1].shape

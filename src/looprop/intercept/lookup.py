"""Replacing the look-up of an embedding table while a model runs, for methods that move the embeddings themselves."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from looprop.errors import RuleError


class LookUpMode(TorchFunctionMode):
    """Runs a model whose look-up in one table is replaced by something else. Patches nothing.

    The table must be looked up once: on the way out it is an error if it never was.
    """

    def __init__(self, weight: Tensor, replace: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.weight, self.replace, self.met = weight, replace, 0

    def __torch_function__(
        self, function: Any, types_: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = function(*args, **(kwargs or {}))
        if getattr(function, "__name__", "") == "embedding" and len(args) > 1 and args[1] is self.weight:
            self.met += 1
            if self.met > 1:
                raise RuleError("the embedding table is looked up more than once in one forward pass")
            return self.replace(out)
        return out

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        if kind is None and self.met == 0:
            raise RuleError(
                "the embedding table was not looked up in the forward pass: the model reads its tokens in another way"
            )

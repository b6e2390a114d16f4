"""The base of every mode that answers some of a model's torch functions in its place.

A mode sees each torch function that runs inside its `with` block, before torch does. It patches nothing: leaving the
block, also by an exception, is all it takes to be without it. While a mode answers a call it is itself off, so that
what it calls goes to torch (or to the mode outside of it). A composite Python function of torch
(`F.multi_head_attention_forward`) therefore arrives as one call, and its inside is not seen.

The relevance mode (`propagation/mode.py`) is the one that does not derive from this: it decides once per function,
not per call, what to do, since it runs for every operation of every explanation.
"""

from abc import abstractmethod
from functools import lru_cache
from typing import Any

from torch.overrides import TorchFunctionMode

from looprop.intercept.operations import operation_name

_named = lru_cache(maxsize=4096)(operation_name)


class InterceptMode(TorchFunctionMode):
    """Hands every call to `answer` under its plain name (`operations.operation_name`)."""

    @abstractmethod
    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the call gives: `function(*args, **kwargs)` itself, or something else in its place."""

    def __torch_function__(
        self, function: Any, types_: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self.answer(_named(function)[0], function, args, kwargs or {})

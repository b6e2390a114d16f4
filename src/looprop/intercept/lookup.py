"""Look-ups in an embedding table answered with something else while a model runs."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from looprop.errors import RuleError
from looprop.intercept.mode import InterceptMode


def _looks_up(weight: Tensor, name: str, args: tuple[Any, ...]) -> bool:
    return name == "embedding" and len(args) > 1 and args[1] is weight


class LookUpMode(InterceptMode):
    """The look-up in one table is replaced by something else.

    The table must be looked up once: on the way out it is an error if it never was.
    """

    def __init__(self, weight: Tensor, replace: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.weight, self.replace, self.met = weight, replace, 0

    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = function(*args, **kwargs)
        if not _looks_up(self.weight, name, args):
            return out
        self.met += 1
        if self.met > 1:
            raise RuleError("the embedding table is looked up more than once in one forward pass")
        return self.replace(out)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        if kind is None and self.met == 0:
            raise RuleError(
                "the embedding table was not looked up in the forward pass: the model reads its tokens in another way"
            )


class OtherRowsMode(InterceptMode):
    """Other rows of a table are looked up than the model asks for: places, for models that take no position ids."""

    def __init__(self, weight: Tensor, rows: Tensor) -> None:
        super().__init__()
        self.weight, self.rows = weight, rows

    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if _looks_up(self.weight, name, args):
            args = (self.rows, *args[1:])
        return function(*args, **kwargs)


class EmbeddedMode(InterceptMode):
    """The embedded sequence (B, T, D) is changed where it goes through the dropout that ends the embedding."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.change, self.met = change, False

    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.met or name != "dropout" or args[0].dim() != 3:
            return function(*args, **kwargs)
        self.met = True
        return self.change(args[0])


class FirstLookUpMode(InterceptMode):
    """Only the first look-up in a table is one in that table: later ones are made in a copy that no other mode knows.

    Encoder and decoder share a table in most models. The encoder's look-up comes first; the decoder's is a constant.
    """

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight, self.met = weight, 0

    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if _looks_up(self.weight, name, args):
            self.met += 1
            if self.met > 1:
                args = (args[0], self.weight.detach(), *args[2:])
        return function(*args, **kwargs)

"""Changes to a model that are undone exactly: the original tensors are put aside and put back, never computed back.

A module keeps its parameters in `_parameters` and finds its `forward` on itself before it looks at its class. Both are
dictionaries of one object, so that an entry can be exchanged without a trace on the class, and put back as it was.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from looprop.intercept.mode import InterceptMode


class Changes:
    """The changes to a model, each with its inverse.

    Parameters are replaced by copies that may be edited; the original objects are never touched. Forward functions are
    replaced on single modules, never on classes.
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._copies: dict[tuple[int, str], nn.Parameter] = {}

    def edit(self, module: nn.Module, name: str) -> Tensor:
        """The data of a copy that now stands in the parameter's place: edit it in place."""
        key = (id(module), name)
        if key not in self._copies:
            original = module._parameters[name]
            assert original is not None
            self._copies[key] = self.replace(module, name, original.detach().clone())
        return self._copies[key].data

    def replace(self, module: nn.Module, name: str, value: Tensor) -> nn.Parameter:
        """A new parameter in the place of an old one, which may have another shape."""
        original = module._parameters[name]
        assert original is not None
        new = nn.Parameter(value.to(original.dtype), requires_grad=original.requires_grad)
        module._parameters[name] = new
        self._undo.append(lambda: module._parameters.__setitem__(name, original))
        return new

    def set_forward(self, module: nn.Module, forward: Callable[..., Any]) -> None:
        """Another forward function for this one module."""
        before = module.__dict__.get("forward")
        module.__dict__["forward"] = forward

        def undo() -> None:
            if before is None:
                module.__dict__.pop("forward", None)
            else:
                module.__dict__["forward"] = before

        self._undo.append(undo)

    def run_under(self, model: nn.Module, make_mode: Callable[[], InterceptMode]) -> None:
        """Every forward pass of the model runs under a mode of its own.

        The mode is entered inside `forward`, so that it stands before modes that are on already: what it makes of a
        call is what the rules of relevance get to see.
        """
        forward = model.forward

        def run(*args: Any, **kwargs: Any) -> Any:
            with make_mode():
                return forward(*args, **kwargs)

        self.set_forward(model, run)

    def then(self, undo: Callable[[], None]) -> None:
        """Something else to be undone."""
        self._undo.append(undo)

    def undo(self) -> None:
        """Put everything back, last change first."""
        while self._undo:
            self._undo.pop()()


@contextmanager
def undone() -> Iterator[Changes]:
    """Changes that hold inside the block."""
    changes = Changes()
    try:
        yield changes
    finally:
        changes.undo()

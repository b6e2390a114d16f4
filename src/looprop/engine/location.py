"""Where in the model something happened, read off the Python stack: nothing is hooked or patched for it."""

import sys
from types import CodeType

from torch import nn


def module_path(root: nn.Module | None) -> str:
    """The path of the innermost module whose method is running, as `named_modules` writes it.

    >>> module_path(None)
    'outside any module'
    """
    names = {} if root is None else {id(module): name for name, module in root.named_modules()}
    frame = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, nn.Module):
            name = names.get(id(owner)) or type(owner).__name__
            return f"{name} ({type(owner).__name__}, {_place(frame.f_code, frame.f_lineno)})"
        frame = frame.f_back  # type: ignore[assignment]
    return "outside any module"


def _place(code: CodeType, line: int) -> str:
    return f"{code.co_filename.rsplit('/', 1)[-1]}:{line}"

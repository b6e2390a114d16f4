"""Where in the model something happened, read off the Python stack: nothing is hooked or patched for it."""

import sys
from types import CodeType, FrameType

from torch import nn


def module_path(root: nn.Module | None) -> str:
    """The path of the innermost module whose method is running, as `named_modules` writes it.

    >>> module_path(None)
    'outside any module'
    """
    frame = _innermost(sys._getframe(1))
    if frame is None:
        return "outside any module"
    names = {} if root is None else {id(module): name for name, module in root.named_modules()}
    owner = frame.f_locals["self"]
    name = names.get(id(owner)) or type(owner).__name__
    return f"{name} ({type(owner).__name__}, {_place(frame.f_code, frame.f_lineno)})"


def inside_a_module() -> bool:
    """Whether a method of a module is running.

    >>> inside_a_module()
    False
    """
    return _innermost(sys._getframe(1)) is not None


def _innermost(frame: FrameType | None) -> FrameType | None:
    while frame is not None and not isinstance(frame.f_locals.get("self"), nn.Module):
        frame = frame.f_back
    return frame


def _place(code: CodeType, line: int) -> str:
    return f"{code.co_filename.rsplit('/', 1)[-1]}:{line}"

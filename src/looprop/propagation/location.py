"""Where in the model something happened, read off the Python stack: nothing is hooked or patched for it."""

import sys
import traceback
from types import FrameType

from torch import nn
from torch.overrides import TorchFunctionMode

from looprop.intercept.operations import operation_name, plain_name

_WRAPPERS = ("wrapped", "call")  # frames of torch between a call and the operation


def module_path(root: nn.Module | None) -> str:
    """The path of the innermost module whose method is running, as `named_modules` writes it.

    >>> module_path(None)
    'outside any module'
    """
    frame = _innermost(sys._getframe(1))
    return "outside any module" if frame is None else _path(root, frame, frame.f_lineno)


def what_failed(error: BaseException, root: nn.Module | None) -> str:
    """The operation that raised an error, as the model calls it, and the innermost module; "" for an error that comes
    neither from an operation of torch nor from a module.
    """
    operation, place, from_model = "", "", True
    for frame, line in traceback.walk_tb(error.__traceback__):
        home, owner = frame.f_globals.get("__name__", "").partition(".")[0], frame.f_locals.get("self")
        if isinstance(owner, nn.Module):
            place, operation = _path(root, frame, line), ""
        elif home in sys.stdlib_module_names:
            continue
        elif isinstance(owner, TorchFunctionMode) and (from_model or operation in _WRAPPERS):
            operation = operation_name(frame.f_locals["function"])[0] if "function" in frame.f_locals else ""
        elif home == "torch" and from_model:
            operation = plain_name(frame.f_code.co_name)[0]
        from_model = isinstance(owner, nn.Module) or home not in ("torch", "looprop")
    return f"{operation!r} in {place or 'outside any module'}" if operation else place


def _path(root: nn.Module | None, frame: FrameType, line: int) -> str:
    names = {} if root is None else {id(module): name for name, module in root.named_modules()}
    owner = frame.f_locals["self"]
    name = names.get(id(owner)) or type(owner).__name__
    return f"{name} ({type(owner).__name__}, {frame.f_code.co_filename.rsplit('/', 1)[-1]}:{line})"


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

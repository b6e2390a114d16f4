"""The kinds of experiments: every file and folder here is one, found by its name and imported when it is needed."""

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from looprop.errors import UnknownNameError

if TYPE_CHECKING:
    from looprop.study.kind import Kind


def kind_names() -> list[str]:
    """The names of all kinds.

    >>> {"networks", "texts", "toys"} <= set(kind_names())
    True
    """
    return sorted(module.name for module in iter_modules(__path__))


def get_kind(name: str) -> "Kind":
    """The kind of that name."""
    if name not in kind_names():
        raise UnknownNameError("kind of experiment", name, kind_names())
    kind: Kind = import_module(f"{__name__}.{name}").KIND
    return kind

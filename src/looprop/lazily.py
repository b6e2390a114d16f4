"""Names of a package that are imported when they are first used, so that nobody waits for torch before it is needed."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose public names live in modules of their own.

    homes: where each name is. In a package: `__getattr__, __dir__ = lazily(__name__, {"Plan": "looprop...plan"})`.
    """

    def get(name: str) -> Any:
        if name in homes:
            return getattr(import_module(homes[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted({*vars(import_module(package)), *homes})

    return get, names

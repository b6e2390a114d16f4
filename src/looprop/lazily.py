"""Names of a package that are imported when they are first used, so that nobody waits for torch before it is needed."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package whose public names live in modules of their own.

    homes: the names of each module, parted by spaces; a module inside the package without the package's name:
    `__getattr__, __dir__, __all__ = lazily(__name__, {"plan": "GRADIENT Plan"})`. For type checkers the same names are
    imported under `TYPE_CHECKING`, each as itself.
    """
    found = {name: home for home, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in found:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = found[name]
        return getattr(import_module(home if home.startswith("looprop.") else f"{package}.{home}"), name)

    def names() -> list[str]:
        return sorted({*vars(import_module(package)), *found})

    return get, names, sorted(found)

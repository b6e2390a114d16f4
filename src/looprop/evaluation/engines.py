"""Who computes: engines by name. An engine applies a picklable function to items and hands out results in any order.

An engine is `run(work, items) -> iterator of results`; everything about files, resuming and order stays outside of it.
"""

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any

from looprop.errors import UnknownNameError

Engine = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]

# Name, and where its function is: imported when asked for.
_ENGINES: dict[str, tuple[str, str]] = {"local": ("looprop.evaluation.local", "run_local")}


def engine_names() -> list[str]:
    """The names of all engines."""
    return list(_ENGINES)


def get_engine(engine: str | Engine) -> Engine:
    """The engine of that name; a function is returned as it is."""
    if callable(engine):
        return engine
    if engine not in _ENGINES:
        raise UnknownNameError("engine", engine, _ENGINES)
    module, attribute = _ENGINES[engine]
    found: Engine = getattr(import_module(module), attribute)
    return found

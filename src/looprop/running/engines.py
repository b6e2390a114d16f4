"""Who computes: engines by name. An engine applies a picklable function to items and hands out results in any order.

An engine is `run(work, items) -> iterable of results`; everything about files, resuming and order stays outside of it.
What one of many machines has to tell beside its results, it tells as `Sharded`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

from looprop.errors import InputError, UnknownNameError

Engine = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Who computes: takes a function and items, gives the results in any order."""

_ENGINES = ("local", "ray")
LOADED_FROM_FOLDER = "looprop_experiment_"
"""Modules whose names begin so were loaded from a folder: other machines cannot import them, and get them as code."""


@runtime_checkable
class Sharded(Protocol):
    """Results of an engine that computes many items at once."""

    def batches(self) -> Iterator[list[Any]]:
        """Results as they arrive, several at once."""

    def status(self) -> str:
        """A few words for the progress bar."""

    def account(self) -> dict[str, Any]:
        """Who computed, as plain data for the manifest."""


def describe(account: Mapping[str, Any]) -> str:
    """An account in one line: the machines, and how much of their time was spent waiting.

    >>> describe({"machines": {"a": 2, "b": 1}, "waiting": 0.031})
    'a (2 workers), b (1 worker); 3.1 % of their time spent waiting'
    """
    machines = ", ".join(f"{name} ({count} worker{'s' * (count > 1)})" for name, count in account["machines"].items())
    return machines + (
        "" if account["waiting"] is None else f"; {100 * account['waiting']:.1f} % of their time spent waiting"
    )


def engine_names() -> list[str]:
    """The names of all engines."""
    return list(_ENGINES)


def get_engine(engine: str | Engine, **options: Any) -> Engine:
    """The engine of that name, with its options (see `RayEngine`); a function is returned as it is."""
    given = {name: value for name, value in options.items() if value is not None}
    if callable(engine):
        return engine
    if engine not in _ENGINES:
        raise UnknownNameError("engine", engine, _ENGINES)
    if engine == "ray":
        from looprop.running.ray.engine import RayEngine  # which needs Ray

        return RayEngine(**given)
    if given:
        raise InputError(f"engine {engine!r} takes no {next(iter(given))}: that is for engine 'ray'")
    return map

"""The engine of one process: example after example."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def run_local(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """The results in order, each as soon as it is computed."""
    return map(work, items)

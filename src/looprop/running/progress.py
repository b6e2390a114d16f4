"""A bar with rate and remaining time."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Task as Bar
from rich.text import Text


class _Rate(ProgressColumn):
    """Examples per second, or seconds per example where those are few."""

    def render(self, task: Bar) -> Text:
        if not task.speed:
            return Text("")
        return Text(f"{task.speed:.1f}/s" if task.speed >= 1 else f"{1 / task.speed:.1f} s each")


class Advance(Protocol):
    """Says that one more, or several, are done, and what there is to say about it."""

    def __call__(self, count: int = 1, note: str = "") -> None: ...


@contextmanager
def progress_bar(title: str, total: int, *, done: int = 0, show: bool = True) -> Iterator[Advance]:
    """A bar with rate and remaining time on standard error; gives a function that says "one more"."""
    note = TextColumn("{task.fields[note]}", markup=False)
    counts = (BarColumn(), MofNCompleteColumn(), _Rate(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(
        TextColumn("{task.description}"), *counts, note, console=Console(stderr=True), disable=not show
    ) as progress:
        bar = progress.add_task(title, total=total, completed=done, note="")
        yield lambda count=1, note="": progress.update(bar, advance=count, note=note)

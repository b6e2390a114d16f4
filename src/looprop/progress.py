"""A bar on standard error, with rate and remaining time, or whatever else wants to hear how far a run is; and long work
a few at a time, so that one can see how far it is and stop with what is done.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from rich import progress as bars
from rich.console import Console
from rich.text import Text

from looprop.display.data import visible


class _Rate(bars.ProgressColumn):
    """Examples per second, or seconds per example where those are few."""

    def render(self, task: bars.Task) -> Text:
        if not task.speed:
            return Text("")
        return Text(f"{task.speed:.1f}/s" if task.speed >= 1 else f"{1 / task.speed:.1f} s each")


class Advance(Protocol):
    """Says that one more, or several, are done, and what there is to say about it or comes next."""

    def __call__(self, note: str = "", count: int = 1) -> None: ...


def shown_by(progress: bool | Advance, title: str, total: int) -> AbstractContextManager[Advance]:
    """What an argument `progress` asks for: True a bar of our own, False nothing, a function to be called itself."""
    return nullcontext(progress) if callable(progress) else progress_bar(title, total, show=progress)


@contextmanager
def progress_bar(
    title: str,
    total: int | None = None,
    *,
    done: int = 0,
    note: str = "",
    show: bool = True,
    patience: float = 0.0,
    transient: bool = False,
) -> Iterator[Advance]:
    """A bar with rate and remaining time on standard error; gives a function that says "one more".

    total: None where nobody can tell. patience: it appears after so many seconds. transient: nothing of it stays.
    """
    if not show:
        yield _unheard
        return
    counts = (bars.MofNCompleteColumn(), _Rate(), bars.TimeElapsedColumn(), bars.TimeRemainingColumn())
    bar = bars.Progress(
        bars.SpinnerColumn(),
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(),
        *(counts if total else (bars.TimeElapsedColumn(),)),
        console=Console(stderr=True),
        transient=transient,
    )
    task = bar.add_task(_said(title, note), total=total, completed=done)
    with _started(bar, patience):
        yield lambda note="", count=1: bar.update(task, advance=count, description=_said(title, note) if note else None)


@contextmanager
def _started(bar: bars.Progress, patience: float) -> Iterator[None]:
    timer = threading.Timer(patience, bar.start)
    timer.daemon = True
    timer.start() if patience else bar.start()
    try:
        yield
    finally:
        if patience:
            timer.cancel()
            # If it has gone off it may still be starting the bar.
            timer.join(timeout=1.0)
        bar.stop()


def _unheard(note: str = "", count: int = 1) -> None:
    pass


def _said(title: str, note: str) -> str:
    return visible("  ".join(part for part in (title, note) if part))


# ----- a few at a time

SHORT = 0.5
"""Seconds: after a step that took less, the next one is twice as large."""

Progress = bool | Callable[[int, int], None]


class InterruptedWarning(UserWarning):
    """Work was stopped, and its result holds what was done before."""


@dataclass(frozen=True)
class Steps:
    """How long work is watched; false where nobody watches it.

    progress: True shows a bar; a function is called after each step: `progress(done, total)`. stop: asked after each
    step; True ends the work, as Ctrl-C does.
    """

    progress: Progress = False
    stop: Callable[[], bool] | None = None

    def __bool__(self) -> bool:
        return self.progress is not False or self.stop is not None

    def run(
        self,
        work: Callable[[int, int], object],
        total: int,
        title: str,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> bool:
        """Call `work(start, end)` on one part after the other; return whether all was done."""
        done, count = 0, 1
        bar = progress_bar(title, total) if self.progress is True else nullcontext(None)
        try:
            with bar as advance:
                while done < total:
                    start, end = clock(), min(done + count, total)
                    work(done, end)
                    if advance is not None:
                        advance(count=end - done)
                    elif callable(self.progress):
                        self.progress(end, total)
                    done = end
                    if done < total and self.stop is not None and self.stop():
                        break
                    count = 2 * count if clock() - start < SHORT else count
        except KeyboardInterrupt:
            pass
        return done == total

"""Work through the missing examples of a run: compute, keep, show progress."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Task as Bar
from rich.text import Text

from looprop.evaluation.engines import Engine, get_engine
from looprop.evaluation.example import Row, Task
from looprop.evaluation.store import Store

# A part is written when it holds this many examples, or when this many seconds have passed: what a kill can cost.
EXAMPLES, SECONDS = 64, 10.0

Work = Callable[[Any], list[Row]]


class _Rate(ProgressColumn):
    """Examples per second, or seconds per example where those are few."""

    def render(self, task: Bar) -> Text:
        if not task.speed:
            return Text("")
        return Text(f"{task.speed:.1f}/s" if task.speed >= 1 else f"{1 / task.speed:.1f} s each")


@contextmanager
def progress_bar(title: str, total: int, *, done: int = 0, show: bool = True) -> Iterator[Callable[[], None]]:
    """A bar with rate and remaining time on standard error; gives a function that says "one more"."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), _Rate(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not show) as progress:
        bar = progress.add_task(title, total=total, completed=done)
        yield lambda: progress.advance(bar)


def run_missing(
    store: Store,
    tasks: Sequence[Task],
    work: Work,
    *,
    title: str = "",
    engine: str | Engine = "local",
    progress: bool = True,
    examples: int = EXAMPLES,
    seconds: float = SECONDS,
) -> None:
    """Compute what the store does not have yet. Whatever stops this, finished parts stay, and what is pending is kept if it can be."""
    wanted = set(store.missing(task.id for task in tasks))
    missing = [task for task in tasks if task.id in wanted]
    with progress_bar(title, len(tasks), done=len(tasks) - len(missing), show=progress) as advance:
        for rows in _parts(get_engine(engine)(work, missing), advance, examples, seconds):
            store.add(rows)
    store.compact(task.id for task in tasks)


def _parts(results: Iterable[list[Row]], advance: Callable[[], None], examples: int, seconds: float) -> Iterator[list[Row]]:
    """Results gathered into parts; what was computed before an interruption is handed out before it goes on its way."""
    pending: list[list[Row]] = []
    last = time.monotonic()
    try:
        for rows in results:
            pending.append(rows)
            advance()
            if len(pending) >= examples or time.monotonic() - last >= seconds:
                whole, pending = pending, []
                yield [row for own in whole for row in own]
                last = time.monotonic()
    except (Exception, KeyboardInterrupt):
        if pending:
            yield [row for own in pending for row in own]
        raise
    if pending:
        yield [row for own in pending for row in own]

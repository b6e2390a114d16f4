"""Work through the missing examples of a run: compute, keep, show progress."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Task as Bar
from rich.text import Text

from looprop.errors import ShardError
from looprop.evaluation.engines import Engine, Sharded, get_engine
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


class Advance(Protocol):
    """Says that one more, or several, are done, and what there is to say about it."""

    def __call__(self, count: int = 1, note: str = "") -> None: ...


@contextmanager
def progress_bar(title: str, total: int, *, done: int = 0, show: bool = True) -> Iterator[Advance]:
    """A bar with rate and remaining time on standard error; gives a function that says "one more"."""
    note = TextColumn("{task.fields[note]}", markup=False)
    counts = (BarColumn(), MofNCompleteColumn(), _Rate(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(TextColumn("{task.description}"), *counts, note, console=Console(stderr=True), disable=not show) as progress:
        bar = progress.add_task(title, total=total, completed=done, note="")
        yield lambda count=1, note="": progress.update(bar, advance=count, note=note)


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
    failed: ShardError | None = None
    with progress_bar(title, len(tasks), done=len(tasks) - len(missing), show=progress) as advance:
        results = get_engine(engine)(work, missing)
        try:
            for rows in _shards(results, advance) if isinstance(results, Sharded) else _parts(results, advance, examples, seconds):
                store.add(rows)
        except ShardError as error:
            failed = error
    if isinstance(results, Sharded) and missing:
        store.note_session(engine=results.account())
    if failed is not None:
        store.note_session(failed=failed.failed)
        raise ShardError(failed.failed, attempts=failed.attempts, hint=". Give the same command again to try only these")
    store.compact(task.id for task in tasks)


def _shards(results: Sharded, advance: Advance) -> Iterator[list[Row]]:
    """One part per shard, at once: what arrived is never computed again."""
    for shard in results.batches():
        yield [row for rows in shard for row in rows]
        advance(len(shard), results.status())


def _parts(results: Iterable[list[Row]], advance: Advance, examples: int, seconds: float) -> Iterator[list[Row]]:
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

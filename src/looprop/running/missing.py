"""Work through the missing examples of a run: compute, keep, show progress."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from looprop.errors import ShardError
from looprop.running.engines import Engine, Sharded, get_engine
from looprop.running.parts import Row
from looprop.running.progress import Advance, progress_bar
from looprop.running.store import Store

# A part is written when it holds this many examples, or when this many seconds have passed: what a kill can cost.
EXAMPLES, SECONDS = 64, 10.0

Work = Callable[[Any], list[Row]]
"""Computes one example: takes a task, gives the rows that are kept of it."""


class HasId(Protocol):
    """A task, of which only this is known here: the name of its example in the store."""

    @property
    def id(self) -> str: ...


def run_missing(
    store: Store,
    tasks: Sequence[HasId],
    work: Work,
    *,
    title: str = "",
    engine: str | Engine = "local",
    progress: bool = True,
    examples: int = EXAMPLES,
    seconds: float = SECONDS,
) -> None:
    """Compute what the store does not have yet. Whatever stops this, finished parts stay, and what is pending is kept
    if it can be.
    """
    wanted = set(store.missing(task.id for task in tasks))
    missing = [task for task in tasks if task.id in wanted]
    failed: ShardError | None = None
    with progress_bar(title, len(tasks), done=len(tasks) - len(missing), show=progress) as advance:
        results = get_engine(engine)(work, missing)
        parts = (
            _shards(results, advance)
            if isinstance(results, Sharded)
            else _gathered(results, advance, examples, seconds)
        )
        try:
            for rows in parts:
                store.add(rows)
        except ShardError as error:
            failed = error
    if isinstance(results, Sharded) and missing:
        store.note_session(engine=results.account())
    if failed is not None:
        store.note_session(failed=failed.failed)
        raise ShardError(
            failed.failed, attempts=failed.attempts, hint=". Give the same command again to try only these"
        )
    store.compact(task.id for task in tasks)


def _shards(results: Sharded, advance: Advance) -> Iterator[list[Row]]:
    """One part per shard, at once: what arrived is never computed again."""
    for shard in results.batches():
        yield [row for rows in shard for row in rows]
        advance(results.status(), len(shard))


def _gathered(results: Iterable[list[Row]], advance: Advance, examples: int, seconds: float) -> Iterator[list[Row]]:
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

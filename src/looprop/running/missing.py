"""Work through the missing examples of a run: compute, keep, show progress."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from looprop.errors import DataError, LoopropError, ShardError
from looprop.progress import Advance, progress_bar
from looprop.running.engines import Engine, Sharded, get_engine
from looprop.running.parts import Row
from looprop.running.store import Store

# A part is written when it holds this many examples, or when this many seconds have passed: what a kill can cost.
EXAMPLES, SECONDS = 64, 10.0

Work = Callable[[Any], list[Row]]
"""Computes one example: takes a task, gives the rows that are kept of it."""


class HasId(Protocol):
    """A task, of which only this is known here: the name of its example in the store."""

    @property
    def id(self) -> str: ...


@dataclass(frozen=True)
class _Failed:
    """An example that could not be computed, and why."""

    id: str
    error: str


def _carefully(work: Work, task: HasId) -> list[Row] | _Failed:
    """Say what went wrong instead of ending the run; what looprop refuses on purpose still does."""
    try:
        return work(task)
    except LoopropError:
        raise
    except Exception as error:
        return _Failed(task.id, f"{type(error).__name__}: {error}")


def check_ids(ids: Sequence[str]) -> None:
    """Raises unless every example has a name of its own that can be written down."""
    twice = next((id for id, count in Counter(ids).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"examples must have ids of their own, got {twice!r} twice")
    for id in ids:
        try:
            id.encode("utf-8")
        except UnicodeEncodeError:
            raise DataError(f"the id of an example must be Unicode, got {id!r}") from None


def run_missing(
    store: Store,
    tasks: Sequence[HasId],
    work: Work,
    *,
    title: str = "",
    engine: str | Engine = "local",
    progress: bool = True,
    retry: bool = False,
    examples: int = EXAMPLES,
    seconds: float = SECONDS,
) -> None:
    """Compute what the store does not have yet. Whatever stops this, finished parts stay, and what is pending is kept
    if it can be.

    retry: compute also examples again whose rows say that something went wrong; the old rows stay until there are new.
    """
    check_ids([task.id for task in tasks])
    wanted = set(store.missing((task.id for task in tasks), retry=retry))
    missing = [task for task in tasks if task.id in wanted]
    failed: ShardError | None = None
    chosen = get_engine(engine)
    with progress_bar(title, len(tasks), done=len(tasks) - len(missing), show=progress) as advance:
        # Others try an example again, on another machine; here it would fail again.
        results = chosen(partial(_carefully, work) if chosen is map else work, missing)
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


def _gathered(
    results: Iterable[list[Row] | _Failed], advance: Advance, examples: int, seconds: float
) -> Iterator[list[Row]]:
    """Results gathered into parts; what was computed before an interruption is handed out before it goes on its way."""
    pending: list[Row] = []
    failed: dict[str, str] = {}
    count, last = 0, time.monotonic()
    try:
        for rows in results:
            advance()
            if isinstance(rows, _Failed):
                failed[rows.id] = rows.error
                continue
            pending, count = [*pending, *rows], count + 1
            if count >= examples or time.monotonic() - last >= seconds:
                whole, pending, count = pending, [], 0
                yield whole
                last = time.monotonic()
    except (Exception, KeyboardInterrupt):
        yield pending
        raise
    yield pending
    if failed:
        raise ShardError(failed, attempts=1)

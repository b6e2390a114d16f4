"""Work through the missing examples of a run: compute, keep, show progress."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, Self

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
        try:
            if isinstance(results, Sharded):
                for shard in results.batches():  # a part at once: what arrived is never computed again
                    store.add([row for rows in shard for row in rows])
                    advance(results.status(), len(shard))
            else:
                _gather(results, Gathering(store, examples, seconds), advance)
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


class Gathering:
    """Rows on their way into a store, which get parts of some examples, or of some seconds; leaving the block keeps the
    rest, whatever ends it. Without a store nothing is kept.
    """

    def __init__(self, store: Store | None, examples: int = EXAMPLES, seconds: float = SECONDS) -> None:
        self._store, self._examples, self._seconds = store, examples, seconds
        self._rows: list[Row] = []
        self._count, self._last = 0, time.monotonic()

    def add(self, rows: list[Row]) -> None:
        """The rows of one example."""
        self._rows, self._count = [*self._rows, *rows], self._count + 1
        if self._count >= self._examples or time.monotonic() - self._last >= self._seconds:
            self._keep()

    def _keep(self) -> None:
        rows, self._rows, self._count = self._rows, [], 0
        if self._store is not None:
            self._store.add(rows)
        self._last = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._keep()


def _gather(results: Iterable[list[Row] | _Failed], gathering: Gathering, advance: Advance) -> None:
    failed: dict[str, str] = {}
    with gathering:
        for rows in results:
            advance()
            if isinstance(rows, _Failed):
                failed[rows.id] = rows.error
            else:
                gathering.add(rows)
    if failed:
        raise ShardError(failed, attempts=1)

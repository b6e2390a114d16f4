"""One worker for all pages: what is short goes before what is long, and any of it can be stopped.

Jobs wait in four lines, one per level. One job computes at a time. Before every layer of a model it asks (`check`)
whether anybody still waits for it, and whether something more urgent does: then it pauses where it is until that is
done. So a strike-out is answered in the middle of an hour's Shapley values.
"""

import asyncio
import itertools
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

Step = Iterator[Any]
"""A job: what it yields goes to whoever asked, and others may come in between."""

MOST_WAITING = 64
"""Jobs in line; more are refused."""
OFTEN = 0.5
"""Seconds after which a job that has given nothing new is asked how far it is."""


class Level(IntEnum):
    """Which jobs go first."""

    STRIKE = 0
    ASK = 1
    METHODS = 2
    REFERENCE = 3


class Busy(Exception):
    """The line is full."""


class Stopped(BaseException):
    """Raised inside a job that nobody waits for any more; no part of the library takes it for a failure of its own."""


@dataclass(eq=False)
class Ticket:
    """A job in line. results: what it gave so far, for whoever asked."""

    job: Step
    loop: asyncio.AbstractEventLoop
    results: "asyncio.Queue[tuple[str, Any]]" = field(default_factory=asyncio.Queue)
    stopped: bool = False

    def give(self, kind: str, value: Any) -> None:
        """Hand something to whoever asked, from a thread of the worker."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.results.put_nowait, (kind, value))


class Worker:
    """Threads that work through jobs, one per level, of which one computes at a time."""

    def __init__(self) -> None:
        self._lines: dict[Level, deque[Ticket]] = {level: deque() for level in Level}
        self._current: dict[Level, Ticket | None] = dict.fromkeys(Level)
        self._changed = threading.Condition()
        self._computing: Level | None = None
        self._ending = False
        self._threads = {
            level: threading.Thread(target=self._work, args=(level,), name=f"looprop-{level.name.lower()}", daemon=True)
            for level in Level
        }
        self._levels: dict[int, Level] = {}
        self.rows = dict.fromkeys(Level, 0)
        """How many inputs have been run through models, by level."""

    def start(self) -> None:
        """Begin."""
        for thread in self._threads.values():
            thread.start()

    def end(self) -> None:
        """Stop what runs, and everything in line; whoever waits is told. Returns at once."""
        with self._changed:
            self._ending = True
            for ticket in itertools.chain(*self._lines.values()):
                ticket.stopped = True
                ticket.give("done", None)
            for current in self._current.values():
                if current is not None:
                    current.stopped = True
            self._changed.notify_all()

    def join(self) -> None:
        """Wait for what was told to stop."""
        for thread in self._threads.values():
            thread.join(timeout=5)

    @property
    def idle(self) -> bool:
        """Is nothing computed, and nothing in line?"""
        with self._changed:
            return not any(self._lines.values()) and not any(self._current.values())

    async def run(
        self, job: Step, *, level: Level = Level.METHODS, progress: Callable[[], Any] | None = None
    ) -> AsyncIterator[Any]:
        """What a job yields, as it comes. Whoever stops listening stops the job.

        progress: says how far it is, None for nothing new; asked whenever the job has been silent for a while.
        """
        ticket = Ticket(job, asyncio.get_running_loop())
        with self._changed:
            if self._ending or sum(map(len, self._lines.values())) >= MOST_WAITING:
                raise Busy
            self._lines[level].append(ticket)
            self._changed.notify_all()
        try:
            while True:
                try:
                    kind, value = await asyncio.wait_for(ticket.results.get(), OFTEN if progress else None)
                except TimeoutError:
                    if progress is not None and (said := progress()) is not None:
                        yield said
                    continue
                if kind == "done":
                    return
                if kind == "failed":
                    raise value
                yield value
        finally:
            self._stop(ticket)

    def _stop(self, ticket: Ticket) -> None:
        with self._changed:
            ticket.stopped = True
            for line in self._lines.values():
                if ticket in line:
                    line.remove(ticket)
            self._changed.notify_all()

    def check(self, rows: int = 0) -> None:
        """Raise in a job that nobody waits for, pause in one that is less urgent than another; asked before every layer
        of a model. Does nothing in threads that are not the worker's.

        rows: how many inputs are about to be run.
        """
        level = self._levels.get(threading.get_ident())
        if level is None:
            return
        self.rows[level] += rows
        ticket = self._current[level]
        if ticket is not None and not ticket.stopped and self._urgent(level):
            with self._changed:
                self._computing = None
                self._changed.notify_all()
                self._changed.wait_for(lambda: ticket.stopped or self._may(level))
                if not ticket.stopped:
                    self._computing = level
        if ticket is not None and ticket.stopped:
            raise Stopped

    def _urgent(self, level: Level) -> bool:
        """Is there anything that goes before this level?"""
        return any(self._lines[other] or self._current[other] for other in Level if other < level)

    def _may(self, level: Level) -> bool:
        return self._computing is None and not self._urgent(level)

    def _work(self, level: Level) -> None:
        self._levels[threading.get_ident()] = level
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ending or (self._lines[level] and self._may(level)))
                if self._ending:
                    return
                ticket = self._current[level] = self._lines[level].popleft()
                self._computing = level
            self._step(ticket, level)

    def _step(self, ticket: Ticket, level: Level) -> None:
        """One step of a job, which then goes to the end of its line."""
        kind, value = "value", None
        try:
            value = next(ticket.job)
        except (StopIteration, Stopped):
            kind = "done"
        except BaseException as error:
            kind, value = "failed", error
        with self._changed:
            self._current[level] = None
            if self._computing is level:
                self._computing = None
            if kind == "value" and not ticket.stopped:
                self._lines[level].append(ticket)
            self._changed.notify_all()
        ticket.give(kind, value)


def one_step(function: Callable[[], Any]) -> Step:
    """A job of a single step."""
    yield function()

"""One worker for all pages: short questions before long ones, long ones a step at a time and in turns, and any of them
can be stopped before the next pass through the model.
"""

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Step = Iterator[Any]
"""A job: what it yields goes to whoever asked, and others may come in between."""

MOST_WAITING = 64
"""Jobs in line; more are refused."""


class Busy(Exception):
    """The line is full."""


class Stopped(BaseException):
    """Raised inside a job that nobody waits for any more; no part of the library takes it for a failure of its own."""


@dataclass(eq=False)
class Ticket:
    """A job in line. results: what it gave so far, for whoever asked."""

    job: Step
    loop: asyncio.AbstractEventLoop
    urgent: bool
    results: "asyncio.Queue[tuple[str, Any]]" = field(default_factory=asyncio.Queue)
    stopped: bool = False

    def give(self, kind: str, value: Any) -> None:
        """Hand something to whoever asked, from the worker's thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.results.put_nowait, (kind, value))


class Worker:
    """A thread that works through jobs; started by `with`."""

    def __init__(self) -> None:
        self._urgent: list[Ticket] = []
        self._others: list[Ticket] = []
        self._current: Ticket | None = None
        self._changed = threading.Condition()
        self._ending = False
        self._thread = threading.Thread(target=self._work, name="looprop-worker", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """Stop what runs, and everything in line."""
        with self._changed:
            self._ending = True
            current = () if self._current is None else (self._current,)
            for ticket in itertools.chain(self._urgent, self._others, current):
                ticket.stopped = True
            self._changed.notify_all()
        self._thread.join(timeout=5)

    async def run(self, job: Step, *, urgent: bool = False) -> AsyncIterator[Any]:
        """What a job yields, as it comes. Whoever stops listening stops the job."""
        ticket = Ticket(job, asyncio.get_running_loop(), urgent)
        with self._changed:
            if self._ending or len(self._urgent) + len(self._others) >= MOST_WAITING:
                raise Busy
            (self._urgent if urgent else self._others).append(ticket)
            self._changed.notify_all()
        try:
            while True:
                kind, value = await ticket.results.get()
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
            for line in (self._urgent, self._others):
                if ticket in line:
                    line.remove(ticket)

    def check(self) -> None:
        """Raise in a job that nobody waits for; asked before every pass through a model."""
        if self._current is not None and self._current.stopped and threading.current_thread() is self._thread:
            raise Stopped

    def _next(self) -> Ticket | None:
        """The next job in line; None at the end."""
        with self._changed:
            while not self._ending and not self._urgent and not self._others:
                self._changed.wait()
            if self._ending:
                return None
            ticket = (self._urgent or self._others).pop(0)
            self._current = ticket
            return ticket

    def _work(self) -> None:
        while True:
            ticket = self._next()
            if ticket is None:
                return
            self._step(ticket)

    def _step(self, ticket: Ticket) -> None:
        """One step of a job, which then goes to the end of its line."""
        try:
            value = next(ticket.job)
        except (StopIteration, Stopped):
            self._finish(ticket, "done", None)
        except BaseException as error:
            self._finish(ticket, "failed", error)
        else:
            ticket.give("value", value)
            with self._changed:
                self._current = None
                if not ticket.stopped:
                    (self._urgent if ticket.urgent else self._others).append(ticket)

    def _finish(self, ticket: Ticket, kind: str, value: Any) -> None:
        with self._changed:
            self._current = None
        ticket.give(kind, value)


def one_step(function: Callable[[], Any]) -> Step:
    """A job of a single step."""
    yield function()

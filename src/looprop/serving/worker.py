"""One computation at a time for all pages: short jobs go before long ones, and any job can be stopped.

A job is a generator; each of its steps runs in a thread of one pool. Before every layer of a model (`interruptible`)
the thread that computes calls `check`, which stops a job that nobody waits for and pauses one while a more urgent job
is in line. So a strike-out is answered in the middle of an hour's Shapley values.
"""

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from torch import Tensor, nn

from looprop.propagation.tape import unseen
from looprop.workbench import Workbench

MOST_WAITING = 64
"""Jobs in line; more are refused."""
OFTEN = 0.5
"""Seconds without a result after which a job is asked for its progress."""
_END = object()


class Level(IntEnum):
    """The urgency of a job; lower levels go first."""

    STRIKE = 0
    ASK = 1
    METHODS = 2
    REFERENCE = 3


class Busy(Exception):
    """The line is full."""


class Stopped(BaseException):
    """Raised inside a job that nobody waits for; not an `Exception`, so that no part of the library handles it."""


@dataclass(eq=False)
class QueuedJob:
    """Steps to compute. turn: its place among the jobs of its level, renewed with every step."""

    steps: Iterator[Any]
    level: Level
    turn: int = 0
    stopped: bool = False


class QueueWorker:
    """Runs jobs, one at a time. rows: how many inputs were run through models so far, by level."""

    def __init__(self) -> None:
        self.rows = dict.fromkeys(Level, 0)
        self._pool = ThreadPoolExecutor(MOST_WAITING + 2, thread_name_prefix="looprop-worker")
        self._changed = threading.Condition()
        self._jobs: set[QueuedJob] = set()
        self._line: set[QueuedJob] = set()  # jobs with a step to compute; the others wait for their reader
        self._computing: QueuedJob | None = None
        self._turns = itertools.count()
        self._here = threading.local()  # job: of this thread
        self._ending = False

    def end(self) -> None:
        """Stop all jobs and refuse new ones. Returns at once."""
        with self._changed:
            self._ending = True
            for job in self._jobs:
                job.stopped = True
            self._changed.notify_all()

    def join(self) -> None:
        """Wait for the jobs that were stopped."""
        self._pool.shutdown()

    @property
    def idle(self) -> bool:
        """Whether nothing is computed and nothing is in line."""
        with self._changed:
            return not self._line and self._computing is None

    async def run(
        self, steps: Iterator[Any], *, level: Level = Level.METHODS, progress: Callable[[], Any] | None = None
    ) -> AsyncIterator[Any]:
        """Yield the results of a job as they come. When the reader stops, the job stops.

        progress: returns how far the job is, None for nothing new; called after every half second without a result.
        """
        job = QueuedJob(steps, level)
        with self._changed:
            if self._ending or len(self._jobs) - (self._computing is not None) >= MOST_WAITING:
                raise Busy
            self._jobs.add(job)
        step = None
        try:
            while not job.stopped:
                step = self._begin_step(job)
                while not (await asyncio.wait([step], timeout=OFTEN if progress else None))[0]:
                    if progress is not None and (so_far := progress()) is not None:
                        yield so_far
                if (value := step.result()) is _END:
                    return
                yield value
        finally:
            with self._changed:
                job.stopped = True
                self._jobs.discard(job)
                self._line.discard(job)
                self._changed.notify_all()
            if step is not None:
                step.cancel()

    def _begin_step(self, job: QueuedJob) -> asyncio.Future[Any]:
        with self._changed:
            job.turn = next(self._turns)
            self._line.add(job)
        return asyncio.get_running_loop().run_in_executor(self._pool, self._step, job)

    def _step(self, job: QueuedJob) -> Any:
        """One step of a job, in a thread of the pool; `_END` after the last."""
        self._here.job = job
        try:
            self._await_turn(job)
            return next(job.steps, _END)
        except Stopped:
            return _END
        finally:
            self._here.job = None
            with self._changed:
                self._line.discard(job)
                if self._computing is job:
                    self._computing = None
                self._changed.notify_all()

    def check(self, rows: int = 0) -> None:
        """Raise `Stopped` in a job that nobody waits for; return when no job is more urgent. Does nothing in threads
        that are not the worker's.

        rows: how many inputs are about to be run.
        """
        job: QueuedJob | None = getattr(self._here, "job", None)
        if job is not None:
            self.rows[job.level] += rows
            self._await_turn(job)

    def _await_turn(self, job: QueuedJob) -> None:
        """Return when a job is the first in line and no other computes."""
        with self._changed:
            if self._computing is job and not self._is_next(job):
                self._computing = None
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_next(job))
            if job.stopped:
                raise Stopped
            self._computing = job

    def _is_next(self, job: QueuedJob) -> bool:
        """Whether a job is to go on: to compute, or to stop."""
        if job.stopped or self._computing not in (None, job):
            return job.stopped
        return job is min(self._line, key=lambda one: (one.level, one.turn))


def one_step(function: Callable[[], Any]) -> Iterator[Any]:
    """A job of a single step."""
    yield function()


def interruptible(bench: Workbench, check: Callable[[int], None]) -> Workbench:
    """The same workbench, whose model calls `check`, which may raise, before each pass with the size of the batch and
    before each of its layers with 0. So generation and large batches can be stopped, too.
    """

    def before_layer(*_: Any) -> None:
        check(0)

    def before_pass(_: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        with unseen():  # no mode takes this for something that the model does with its input
            tensors = [value for value in (*given, *named.values()) if isinstance(value, Tensor) and value.dim()]
            rows = len(tensors[0]) if tensors else 1
        check(rows)

    bench.model.register_forward_pre_hook(before_pass, with_kwargs=True)
    for layer in {layer for part in bench.model.modules() if isinstance(part, nn.ModuleList) for layer in part}:
        layer.register_forward_pre_hook(before_layer)
    return bench

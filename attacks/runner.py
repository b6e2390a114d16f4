"""Runs the cases of a campaign in processes of their own, so that no case can take the others with it."""

import multiprocessing
import os
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from attacks.catalogue import CAMPAIGNS, Campaign
from attacks.verdict import KINDS, HangError, Outcome, WrongError
from looprop.errors import LoopropError

# A case that waits may take this many times as long as one that computes: others use the machine, too.
PATIENCE = 6


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raises HangError in this block once it has computed that long, or waited some times longer."""

    def ring(*_: Any) -> None:
        raise HangError

    timers = ((signal.SIGPROF, signal.ITIMER_PROF, seconds), (signal.SIGALRM, signal.ITIMER_REAL, PATIENCE * seconds))
    before = [signal.signal(number, ring) for number, _, _ in timers]
    for _, timer, limit in timers:
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def judged(campaign: Campaign, seed: int) -> Outcome:
    """What comes of one case, whatever happens in it."""
    try:
        with alarm(campaign.hang):
            return campaign.case(seed)
    except WrongError as error:
        return Outcome("wrong", str(error))
    except LoopropError as error:
        return Outcome("refused", str(error))
    except HangError:
        return Outcome("hang", f"no answer in {campaign.hang} s")
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome("traceback", f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})")


def _work(name: str, line: Connection) -> None:
    """A worker: answers each seed with an outcome."""
    campaign = CAMPAIGNS[name]
    campaign.prepare()
    while (seed := line.recv()) is not None:
        line.send((seed, judged(campaign, seed)))


@dataclass
class Tally:
    """What a campaign has come to."""

    campaign: Campaign
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[int, Outcome]] = field(default_factory=list)
    over: list[str] = field(default_factory=list)
    seconds: float = 0.0
    tries: int = 0

    def note(self, seed: int, outcome: Outcome) -> None:
        """Count one case."""
        self.counts[outcome.kind] += 1
        self.tries += outcome.tries
        self.over.extend(outcome.over)
        if outcome.finding:
            self.findings.append((seed, outcome))

    def line(self) -> str:
        """One row of the summary."""
        numbers = "".join(f"{self.counts[kind]:>11}" for kind in KINDS)
        return f"{self.campaign.name:<10}{sum(self.counts.values()):>8}{self.tries:>9}{numbers}{self.seconds:>9.0f} s"


class Worker:
    """One process, and the seed that it works on."""

    def __init__(self, campaign: Campaign) -> None:
        context = multiprocessing.get_context("spawn")
        self.line, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_work, args=(campaign.name, theirs), daemon=False)
        self.process.start()
        theirs.close()
        self.seed: int | None = None
        self.since = 0.0

    def give(self, seed: int) -> None:
        """Hand out a case."""
        self.seed, self.since = seed, time.monotonic()
        self.line.send(seed)

    def end(self) -> None:
        """End the process; one that is at work is not asked."""
        if self.seed is None and self.process.is_alive():
            self.line.send(None)
            self.process.join(10)
        self.process.kill()
        self.process.join()
        self.line.close()


def run(
    campaign: Campaign,
    seed: int,
    *,
    count: int | None,
    seconds: float | None,
    processes: int = 2,
    told: Callable[[Tally], None] = lambda _: None,
) -> Tally:
    """All cases from `seed` on, until there are `count` of them or the time is over; told: called after each."""
    with tempfile.TemporaryDirectory(prefix=f"attack-{campaign.name}") as place:  # of everything that workers write
        before = os.environ.get("TMPDIR")
        os.environ["TMPDIR"] = place
        try:
            return _run(campaign, seed, count, seconds, processes, told)
        finally:
            os.environ.pop("TMPDIR")
            if before is not None:
                os.environ["TMPDIR"] = before


def _run(
    campaign: Campaign,
    seed: int,
    count: int | None,
    seconds: float | None,
    processes: int,
    told: Callable[[Tally], None],
) -> Tally:
    tally, start, following = Tally(campaign), time.monotonic(), seed

    def more() -> bool:
        in_time = seconds is None or time.monotonic() - start < seconds
        return in_time and (count is None or following < seed + count)

    workers = [Worker(campaign) for _ in range(processes if count is None else min(processes, count))]
    try:
        while True:
            for worker in workers:
                if worker.seed is None and more():
                    worker.give(following)
                    following += 1
            busy = [w for w in workers if w.seed is not None]
            if not busy:
                break
            ready = wait([w.line for w in busy], timeout=1.0)
            for worker in busy:
                number = worker.seed
                assert number is not None
                if worker.line in ready:
                    try:
                        _, outcome = worker.line.recv()
                        if outcome.kind != "hang":  # whatever the alarm broke off may be broken
                            worker.seed = None
                    except (EOFError, ConnectionError):
                        outcome = Outcome("traceback", f"the process died (exit code {worker.process.exitcode})")
                elif time.monotonic() - worker.since > PATIENCE * campaign.hang + 300:
                    outcome = Outcome("hang", "no answer, not even to an alarm")
                else:
                    continue
                if worker.seed is not None:  # it died or hung: another takes its place
                    worker.end()
                    workers[workers.index(worker)] = Worker(campaign)
                tally.note(number, outcome)
                tally.seconds = time.monotonic() - start
                told(tally)
    finally:
        for worker in workers:
            worker.end()
    tally.seconds = time.monotonic() - start
    return tally

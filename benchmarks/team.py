"""Sides that take turns: one process each, in its own environment, one of them working at a time."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.environments import BENCH, PEERS, ROOT, environment

OURS = "looprop"
ENVIRONMENT_OF = {"lxt_efficient": "lxt", "lxt_explicit": "lxt", "context_cite": "context-cite"}
"""Sides that share an environment with another; all others bear its name."""

# A turn shorter than this is repeated within itself: the clock and the first touch of the caches would be most of it.
SECONDS_PER_TURN = 0.15


class SideError(RuntimeError):
    """What a side said instead of an answer."""


class Side:
    """A running worker process."""

    def __init__(self, name: str, python: Path, threads: int) -> None:
        self.name, self._next = name, 0
        surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
        surroundings |= {
            "OMP_WAIT_POLICY": "PASSIVE",
            "OMP_NUM_THREADS": str(threads),
            "TOKENIZERS_PARALLELISM": "false",
        }
        surroundings |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "CUDA_VISIBLE_DEVICES": ""}
        BENCH.mkdir(exist_ok=True)
        with (BENCH / f"{name}.log").open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [str(python), "-m", "benchmarks.worker", name, str(threads)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                env=surroundings,
            )
        try:
            self._reply()
        except SideError:
            self.close()
            raise

    def ask(self, **request: Any) -> dict[str, Any]:
        """One request and its answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise SideError(self._ended()) from error
        return self._reply()

    def _reply(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SideError(self._ended())
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise SideError(reply["error"])
        return reply

    def _ended(self) -> str:
        return f"the process ended with code {self._process.wait()}"

    def prepare(self, job: str, case: Path | None, **options: Any) -> tuple[int, int]:
        """The number of a new job, and its units."""
        self._next += 1
        return self._next, int(
            self.ask(do="prepare", id=self._next, job=job, case=str(case) if case else None, options=options)["units"]
        )

    def close(self) -> None:
        """End the process: it stops when its input does."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self._process.wait()


@dataclass
class Team:
    """All sides, started when first asked for; what a side failed with is kept and reported."""

    threads: int
    install: bool = True
    errors: dict[str, str] = field(default_factory=dict)
    _sides: dict[str, Side] = field(default_factory=dict)

    def side(self, name: str) -> Side:
        """A running side; SideError if it cannot be had."""
        if name in self.errors:
            raise SideError(self.errors[name])
        if name not in self._sides:
            try:
                self._sides[name] = Side(name, self._python(name), self.threads)
            except SideError as error:
                self.errors[name] = str(error)
                raise
        return self._sides[name]

    def _python(self, name: str) -> Path:
        if name == OURS:
            return Path(sys.executable)
        found = environment(ENVIRONMENT_OF.get(name, name), create=self.install)
        if found.error is not None:
            raise SideError(found.error)
        return found.python

    def versions(self) -> dict[str, dict[str, str]]:
        """The versions of every side that ran."""
        found = {}
        for name, side in self._sides.items():
            peer = PEERS.get(ENVIRONMENT_OF.get(name, name))
            packages = peer.packages if peer else ("transformers", "numpy")
            try:
                found[name] = side.ask(do="versions", packages=[*packages, "torch"])["versions"]
            except SideError as error:
                found[name] = {"error": str(error)}
        return found

    def answers(self, name: str, job: str, case: Path | None, **options: Any) -> list[NDArray[np.float64]]:
        """What a side answers to a job."""
        return self.timed_answers(name, job, case, **options)[0]

    def timed_answers(
        self, name: str, job: str, case: Path | None, **options: Any
    ) -> tuple[list[NDArray[np.float64]], dict[str, float]]:
        """The answer with the CPU and wall seconds of one unit, and how many units it had."""
        side = self.side(name)
        number, _ = side.prepare(job, case, **options)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "answer.npz"
            seconds = side.ask(do="answer", id=number, path=str(path))
            with np.load(path) as stored:
                return [stored[key] for key in stored.files], seconds

    def forget(self) -> None:
        """Drop jobs and models, so that memory holds one model per side."""
        for name, side in list(self._sides.items()):
            try:
                side.ask(do="forget")
            except SideError as error:
                self._dropped(name, error)

    def _dropped(self, name: str, error: SideError) -> None:
        """A process that has died starts anew when it is next asked for."""
        if "process ended" in str(error) and name in self._sides:
            self._sides.pop(name).close()

    def take_turns(
        self, jobs: Sequence["Turn"], *, repeats: int, seconds: float = 60.0, memory: bool = False, least: int = 3
    ) -> list[dict[str, Any]]:
        """Interleaved runs: one result per job, in units of the first one; a job that fails has an error instead of
        numbers.

        After one round to warm up, in which memory is measured, rounds go on until there are `repeats`, or at least
        `least` and `seconds` are over.
        """
        ready = [self._ready(job) for job in jobs]
        for one in ready:
            one.attempt(lambda one=one: one.warm_up(memory))
        start = time.monotonic()
        for count in range(repeats):
            if count >= least and time.monotonic() - start > seconds:
                break
            # Every round begins with another job, so that none always follows the same one.
            order = ready[count % len(ready) :] + ready[: count % len(ready)]
            for one in order:
                one.attempt(lambda one=one: one.turn())
        return [one.result(ready[0]) for one in ready]

    def _ready(self, job: "Turn") -> "_Ready":
        ready = _Ready(job)
        try:
            ready.side = self.side(job.side)
            ready.number, ready.units = ready.side.prepare(job.job, job.case, **job.options)
        except SideError as error:
            ready.error = str(error)
            self._dropped(job.side, error)
        return ready

    def close(self) -> None:
        """End all processes."""
        for side in self._sides.values():
            side.close()


@dataclass(frozen=True)
class Turn:
    """One job of one side."""

    side: str
    job: str
    case: Path | None
    title: str = ""
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Ready:
    """A job that is prepared, and what was measured so far."""

    job: Turn
    side: Side | None = None
    number: int = 0
    units: int = 1
    calls: int = 1
    error: str | None = None
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    megabytes: float | None = None

    def attempt(self, action: Any) -> None:
        if self.error is None:
            try:
                action()
            except SideError as error:
                self.error = str(error)

    def _run(self, calls: int) -> dict[str, Any]:
        assert self.side is not None
        return self.side.ask(do="run", id=self.number, calls=calls)

    def warm_up(self, memory: bool) -> None:
        once = self._first(memory)
        if once < 5.0:  # the first run of a short job is mostly preparation
            once = min(self._first(memory) for _ in range(3 if memory and once < 1.0 else 1))
        self.calls = max(1, min(100, round(SECONDS_PER_TURN / max(once, 1e-4))))

    def _first(self, memory: bool) -> float:
        """Wall seconds of one run, and its memory where that is asked for: the least of all such runs, since what a
        process does once (code that is loaded, kernels that are made) is not needed for a run.
        """
        assert self.side is not None
        found = self.side.ask(do="memory", id=self.number) if memory else self._run(1)
        if (megabytes := found.get("megabytes")) is not None:
            self.megabytes = megabytes if self.megabytes is None else min(self.megabytes, megabytes)
        return float(found["wall"]) * self.units

    def turn(self) -> None:
        found = self._run(self.calls)
        self.cpu.append(found["cpu"])
        self.wall.append(found["wall"])

    def result(self, unit: "_Ready") -> dict[str, Any]:
        """Medians of seconds per unit; the ratio is the median over rounds, which takes out what changes from round to
        round.
        """
        row: dict[str, Any] = {"side": self.job.side, "job": self.job.title or self.job.job}
        if self.error is not None or not self.cpu:
            return {**row, "error": self.error or "not run"}
        row |= {
            "cpu": statistics.median(self.cpu),
            "wall": statistics.median(self.wall),
            "rounds": len(self.cpu),
            "units": self.units,
        }
        if unit.error is None and len(unit.cpu) == len(self.cpu):
            ratios = [own / other for own, other in zip(self.cpu, unit.cpu, strict=True)]
            quartiles = np.quantile(ratios, [0.25, 0.75])
            row |= {"ratio": statistics.median(ratios), "spread": [float(q) for q in quartiles]}
        return row | ({"megabytes": self.megabytes} if self.megabytes is not None else {})


@contextmanager
def team(threads: int, *, install: bool = True) -> Iterator[Team]:
    """A team whose processes end with the block."""
    members = Team(threads, install)
    try:
        yield members
    finally:
        members.close()

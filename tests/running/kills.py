"""Kills of a run, at every point where it writes and at any moment, and whether it then goes on as if nothing had been.

A child process works through a run of cheap rows and is killed with SIGKILL: at the n-th call of something that changes
files, just before it, just after it, or halfway through what it writes; or after a random time. Then another goes on,
which may be killed too. At last one is left alone, and its table must be that of a run nobody disturbed, bit for bit.

    python -m running.kills 1000 0        from the folder tests: so many kills, with this seed
"""

import builtins
import io
import os
import random
import shutil
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from looprop.running.missing import run_missing
from looprop.running.parts import Row
from looprop.running.store import open_store, read_store

EXAMPLES = 8
PER_PART = 2
IDENTITY = {"spec": {"name": "killed"}, "seed": 0}
PRIMITIVES = ("mkdir", "create", "open", "write", "fsync", "replace", "unlink")
"""Everything by which a run changes files."""
WHEN = ("before", "after")
Point = tuple[str, int, str]
"""Which primitive, the how-manieth call of it, and before or after it (of a write: halfway through)."""


@dataclass(frozen=True)
class Example:
    """A task of the run."""

    id: str


def rows_of(task: Example) -> list[Row]:
    """Rows whose every bit depends on the example, with what rows can hold; every third one has failed."""
    rng = random.Random(task.id)
    odd = [float("nan"), -0.0, float("inf"), 5e-324, rng.random()]
    return [
        {
            "example": task.id,
            "method": method,
            "value": rng.choice(odd),
            "scores": [rng.gauss(0, 1) for _ in range(rng.randrange(5))],
            "flipped": rng.choice([None, True, False]),
            "count": rng.randrange(2**40),
            "error": "failed" if int(task.id) % 3 == 0 else "",
        }
        for method in ("loo", "cp-lrp")
    ]


def session(folder: Path) -> None:
    """One attempt at the run, to its end unless somebody ends it."""
    with open_store(folder, IDENTITY, tasks=EXAMPLES) as store:
        tasks = [Example(str(i)) for i in range(EXAMPLES)]
        run_missing(store, tasks, rows_of, progress=False, examples=PER_PART, seconds=1e9)
        store.finish()


def bits(folder: Path) -> list[dict[str, Any]]:
    """The table of a run with every float as its bits."""

    def one(value: Any) -> Any:
        if isinstance(value, float):
            return struct.pack("<d", value).hex()
        return [one(own) for own in value] if isinstance(value, list) else value

    return [{name: one(value) for name, value in row.items()} for row in read_store(folder).rows()]


@dataclass
class Counter:
    """Counts calls of the primitives under a folder, and kills its own process at one of them."""

    folder: str
    fatal: Point | None = None
    calls: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PRIMITIVES, 0))

    def met(self, name: str, act: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        """Do it, unless this is the moment to die."""
        self.calls[name] += 1
        here = self.fatal is not None and self.fatal[:2] == (name, self.calls[name])
        if here and self.fatal[2] == "before":
            _die()
        if here and half is not None:
            half()
            _die()
        result = act()
        if here:
            _die()
        return result

    def install(self) -> None:
        """In a process of its own: there is no way back."""
        for name in ("mkdir", "fsync", "replace", "unlink"):
            setattr(os, name, self._wrapped(name, getattr(os, name)))
        create = os.open

        def created(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
            make: Callable[[], int] = lambda: create(path, flags, *args, **kwargs)  # noqa: E731
            return int(self.met("create", make)) if flags & os.O_CREAT and self._ours(path) else make()

        os.open = created
        real = io.open

        def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            if set(mode) & set("wxa+") and self._ours(file):
                made = self.met("open", lambda: real(file, mode, *args, **kwargs))
                return _Watched(made, self)
            return real(file, mode, *args, **kwargs)

        io.open = builtins.open = opened  # type: ignore[assignment]

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(first: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(first, int) or self._ours(first):
                return self.met(name, lambda: real(first, *args, **kwargs))
            return real(first, *args, **kwargs)

        return call

    def _ours(self, path: Any) -> bool:
        return not isinstance(path, int) and str(path).startswith(self.folder)


class _Watched:
    """A file whose writes are counted; killed halfway, half of what was to be written is there."""

    def __init__(self, file: Any, counter: Counter) -> None:
        self._file, self._counter = file, counter

    def write(self, content: Any) -> Any:
        def half() -> None:
            self._file.write(content[: len(content) // 2])
            self._file.flush()

        return self._counter.met("write", lambda: self._file.write(content), half)

    def __enter__(self) -> "_Watched":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def in_child(work: Callable[[], None], *, kill_after: float | None = None) -> bool:
    """Run work in a child; was it killed? An error of its own is not allowed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException as error:
            os.write(2, f"a session failed by itself: {type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0, "a session that was not killed must not fail"
    return False


def points(home: Path) -> list[Point]:
    """Every point of an undisturbed run at which it can be killed."""
    reader, writer = os.pipe()

    def counted() -> None:
        counter = Counter(str(home / "counted"))
        counter.install()
        session(home / "counted")
        os.write(writer, " ".join(str(counter.calls[name]) for name in PRIMITIVES).encode())

    in_child(counted)
    counts = os.read(reader, 1000).split()
    for end in (reader, writer):
        os.close(end)
    calls = [(name, n) for name, count in zip(PRIMITIVES, counts, strict=True) for n in range(1, int(count) + 1)]
    return [(name, n, when) for name, n in calls for when in WHEN]


def attempts(home: Path, seed: int) -> Iterator[tuple[int, Point | float]]:
    """Which run is killed next, and where or when: first every point once, each in a run of its own; then runs that are
    killed again and again, at random points and at random moments.
    """
    rng = random.Random(seed)
    every = points(home)
    rng.shuffle(every)
    start = time.perf_counter()
    in_child(lambda: session(home / "timed"))
    usual = time.perf_counter() - start
    yield from enumerate(every)
    run = len(every)
    while True:
        for _ in range(rng.randint(1, 6)):
            yield run, rng.choice(every) if rng.random() < 0.5 else rng.uniform(0, usual)
        run += 1


def kill_campaign(count: int, seed: int) -> int:
    """Kill a run so many times; raises unless every run then ends like an undisturbed one.

    Returns at how many points a run can be killed.
    """
    # In memory where that is possible: what a kill of a process leaves is the same, and waiting for disks is long.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="kills-", dir=memory if os.access(memory, os.W_OK) else None) as name:
        home = Path(name)
        session(home / "whole")
        wanted, killed, last = bits(home / "whole"), 0, -1
        for run, where in attempts(home, seed):
            if run != last and last >= 0:
                _settled(home / str(last), wanted, f"seed {seed}, run {last}")
            last = run
            if killed >= count:
                break
            killed += _killed(home / str(run), where)
        _settled(home / str(last), wanted, f"seed {seed}, run {last}")
        return len(points(home / "again"))


def _killed(folder: Path, where: Point | float) -> bool:
    if isinstance(where, float):
        return in_child(lambda: session(folder), kill_after=where)

    def doomed() -> None:
        Counter(str(folder), where).install()
        session(folder)

    return in_child(doomed)


def _settled(folder: Path, wanted: list[dict[str, Any]], which: str) -> None:
    """Whoever comes next finishes the run, and nothing half written is left."""
    session(folder)
    assert bits(folder) == wanted, f"{which}: other rows than those of an undisturbed run"
    left = [path.name for path in folder.rglob("*") if path.name.endswith(".tmp") or path.name.startswith("lock")]
    assert not left, f"{which}: {left} is left"
    shutil.rmtree(folder)


if __name__ == "__main__":
    begun = time.perf_counter()
    found = kill_campaign(int(sys.argv[1]), int(sys.argv[2]))
    took = time.perf_counter() - begun
    print(f"{sys.argv[1]} kills, {found} points, seed {sys.argv[2]}: equal bit for bit, {took:.0f} s")

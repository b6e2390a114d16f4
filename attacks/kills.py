"""Runs, commands and Ray workers killed at any moment: what was finished stays, and the same command goes on."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from tests.evaluation.tiny import TEXTS, save_tiny
from tests.running.processes import kill_worker

from attacks.verdict import Outcome, WrongError
from looprop.errors import ShardError
from looprop.evaluation import Evaluation
from looprop.study import read_run, reproduce

SPEC = "{name: x, kind: texts, question: 'killed?', data: {sst2: {}}, methods: [loo, cp-lrp]}"
# Where a process can be killed: just before one of these calls.
POINTS = [
    (os, "fsync"),
    (os, "replace"),
    (os, "rename"),
    (Path, "replace"),
    (Path, "unlink"),
    (Path, "mkdir"),
    (os, "write"),
]
TESTS = Path(__file__).parents[1] / "tests"
# Kills of one run, before it may finish.
ROUNDS = 6


@cache
def prepared() -> Path:
    """A model, texts, and what an undisturbed run and command make of them; once per process."""
    place = Path(tempfile.mkdtemp(prefix="attack-kills"))
    save_tiny(place / "model")
    (place / "texts.txt").write_text("\n".join(TEXTS[:4]), encoding="utf-8")
    (place / "spec.yaml").write_text(SPEC, encoding="utf-8")
    (place / "long.txt").write_text("\n".join(8 * f"{a} but {b} " for a in TEXTS for b in TEXTS), encoding="utf-8")
    run(place / "run")
    evaluated(place / "out")
    return place


def run(out: Path, texts: str = "texts.txt", engine: Any = "local") -> Any:
    """A run of an experiment, a part for every example."""
    home = prepared() if out.name != "run" else out.parent
    options: dict[str, Any] = {"model": str(home / "model"), "data": str(home / texts), "engine": engine}
    return reproduce(str(home / "spec.yaml"), out=out, progress=False, part_examples=1, **options)


def evaluated(out: Path) -> None:
    """The command `looprop evaluate` with a folder and a page, in this process."""
    from looprop.cli.main import app

    home = prepared() if out.name != "out" else out.parent
    words = [
        "evaluate",
        str(home / "texts.txt"),
        "--model",
        str(home / "model"),
        "--method",
        "loo",
        "--method",
        "cp-lrp",
    ]
    words += ["--out", str(out), "--html", f"{out}.html", "--no-color"]
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        kept = os.dup(1), os.dup(2)
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        try:
            app(words, standalone_mode=False)
        finally:
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
            os.close(kept[0])
            os.close(kept[1])


def doomed(work: Callable[[], Any], dice: np.random.Generator) -> bool:
    """Do some work in a child that is killed at a write or at a moment; whether it was killed."""
    moment = float(dice.uniform(0.0005, 0.25)) if dice.random() < 0.4 else None
    owner, name = POINTS[int(dice.integers(len(POINTS)))]
    count = int(dice.integers(1, 12))
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        code = 1
        try:
            if moment is not None:
                signal.signal(signal.SIGPROF, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
                signal.setitimer(signal.ITIMER_PROF, moment)
            else:
                real, calls = getattr(owner, name), []

                def counted(*args: Any, **options: Any) -> Any:
                    calls.append(1)
                    if len(calls) == count:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return real(*args, **options)

                setattr(owner, name, counted)
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise WrongError("after a kill the same command fails")
    return os.WIFSIGNALED(status)


def _plain(rows: list[dict[str, Any]]) -> str:
    return json.dumps([{**row, "seconds": 0} for row in rows], default=str)


def killed_run(dice: np.random.Generator, place: Path) -> int:
    """A run that is killed again and again, and then left to finish: the rows of an undisturbed one."""
    killed = sum(doomed(lambda: run(place / "killed"), dice) for _ in range(ROUNDS))
    again = run(place / "killed")
    if not again.finished or _plain(again.rows) != _plain(read_run(prepared() / "run").rows):
        raise WrongError(f"a run that was killed {killed} times has other rows than one that was not")
    return killed


def killed_command(dice: np.random.Generator, place: Path) -> int:
    """A command that is killed: its files are whole or not there, and giving it again makes them."""
    truth = Evaluation.load(prepared() / "out").rows
    killed = 0
    for _ in range(ROUNDS):
        killed += doomed(lambda: evaluated(place / "killed"), dice)
        page, folder = place / "killed.html", place / "killed"
        if page.exists() and not page.read_text(encoding="utf-8").rstrip().endswith("</html>"):
            raise WrongError("half a page was left behind")
        if (folder / "evaluation.json").exists() and _plain(Evaluation.load(folder).rows) != _plain(truth):
            raise WrongError("half an evaluation was left behind")
    evaluated(place / "killed")
    if _plain(Evaluation.load(place / "killed").rows) != _plain(truth):
        raise WrongError("a command that was killed makes other rows when it is given again")
    return killed


def killed_store(dice: np.random.Generator, place: Path) -> int:
    """A run of cheap rows killed before, after and halfway through every write: the campaign of the tests."""
    count = 40
    command = [sys.executable, "-m", "running.kills", str(count), str(int(dice.integers(10**6)))]
    known = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    # Forked from a small process of its own, which has neither torch nor threads.
    done = subprocess.run(command, cwd=TESTS, env=known, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WrongError(f"{' '.join(command[2:])}: {done.stderr[-300:]}")
    return count


@contextmanager
def killing(dice: np.random.Generator) -> Iterator[list[bool]]:
    """Kill the Ray worker of this process in the middle of its tasks, at random times; yields a list of the kills."""
    kills: list[bool] = []
    over = threading.Event()

    def kill() -> None:
        while len(kills) < ROUNDS and not over.wait(float(dice.uniform(0.01, 1.0))):
            kills.extend([True] * kill_worker(patience=0))

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield kills
    finally:
        over.set()
        thread.join()


def killed_workers(dice: np.random.Generator, place: Path) -> int:
    """A run on Ray whose workers are killed: the rows of a run in this process."""
    from looprop.running.ray.engine import RayEngine

    truth = prepared() / "long"
    if not truth.exists():
        run(truth, "long.txt")
    with killing(dice) as kills:
        while True:
            try:
                again = run(place / "killed", "long.txt", RayEngine("local", workers=1))
                break
            except ShardError:  # three kills have met the same example: the same command tries it again
                continue
    if not again.finished or _plain(again.rows) != _plain(read_run(truth).rows):
        raise WrongError(f"a run of which {len(kills)} workers were killed has other rows than one that was not")
    return len(kills)


def prepare() -> None:
    """Makes what all cases share."""
    prepared()


def case(seed: int) -> Outcome:
    """Some kills of one run, of one command, of a run at each of its writes, or of the Ray workers of a run."""
    kinds = (killed_command, killed_run, killed_store, killed_workers if find_spec("ray") else killed_store)
    dice = np.random.default_rng([seed, 5])
    prepared()
    place = Path(tempfile.mkdtemp(prefix="attack"))
    try:
        killed = kinds[seed % len(kinds)](dice, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return Outcome("right", f"{killed} kills", tries=killed)

"""Kills of the command line: `looprop reproduce`, ended at every kind of moment, given again and again.

python -m study.command_kills 20 0 FOLDER        from the folder tests: so many kills, with this seed
"""

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from typer.testing import CliRunner

from evaluation.tiny import TEXTS, save_tiny
from looprop.cli.main import app
from looprop.running import run_missing
from looprop.study import read_run, reproducing
from running.kills import PRIMITIVES, WHEN, Counter, in_child

SPEC = """
name: killed
kind: texts
question: "goes on?"
data: {own: {}}
methods: [loo, attnlrp, cp-lrp]
"""
# About as often as the command does any one thing that writes.
CALLS = 12


def command(home: Path, folder: Path) -> None:
    """The command, as it is typed."""
    given = ["--model", str(home / "model"), "--data", str(home / "own.txt"), "--out", str(folder)]
    done = CliRunner().invoke(app, ["reproduce", str(home / "spec.yaml"), *given])
    assert done.exit_code == 0, done.output


def table(folder: Path) -> str:
    """The rows, without the time that was measured; floats are printed so that no bit is lost."""
    return repr([{**row, "seconds": 0} for row in read_run(folder).rows])


def doomed(home: Path, folder: Path, rng: random.Random, usual: float) -> Any:
    """The command with an end: at a point where it writes, or after some of the time that it usually takes."""
    point = (rng.choice(PRIMITIVES), rng.randint(1, CALLS), rng.choice(WHEN))
    moment = rng.uniform(0.01, 0.9) * usual

    def run() -> None:
        # Also where the point is never met.
        signal.signal(signal.SIGPROF, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        signal.setitimer(signal.ITIMER_PROF, moment)
        if rng.random() < 0.5:
            Counter(str(folder), point).install()
        command(home, folder)

    return run


def kill_commands(count: int, seed: int, home: Path) -> None:
    """Kill the command so many times, each run up to five times; raises unless each ends like an undisturbed one."""
    torch.set_num_threads(1)
    # A part for each example: more to be killed at.
    reproducing.run_missing = lambda *given, **options: run_missing(*given, **{**options, "examples": 1})
    save_tiny(home / "model")
    (home / "own.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    (home / "spec.yaml").write_text(SPEC, encoding="utf-8")
    command(home, home / "warm")  # a first run also imports
    start = time.process_time()
    command(home, home / "whole")
    usual, wanted = time.process_time() - start, table(home / "whole")
    rng, killed, folder = random.Random(seed), 0, home / "killed"
    while killed < count:
        for _ in range(rng.randint(1, 5)):
            killed += in_child(doomed(home, folder, rng, usual))
        command(home, folder)
        assert table(folder) == wanted, (
            f"seed {seed}, after {killed} kills: other rows than those of an undisturbed run"
        )
        assert read_run(folder).finished
        shutil.rmtree(folder)


if __name__ == "__main__":
    kill_commands(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
    print(f"{sys.argv[1]} kills of the command, seed {sys.argv[2]}: equal bit for bit")

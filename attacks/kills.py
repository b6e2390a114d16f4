"""Runs and commands killed at a write or at any moment: what was finished stays, and the same command goes on."""

import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tests.evaluation.tiny import TEXTS, save_tiny

from attacks.verdict import Outcome, WrongError
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
# Kills of one run, before it may finish.
ROUNDS = 6


@cache
def prepared() -> Path:
    """A model, texts, and what an undisturbed run and command make of them; once per process."""
    place = Path(tempfile.mkdtemp(prefix="attack-kills"))
    save_tiny(place / "model")
    (place / "texts.txt").write_text("\n".join(TEXTS[:4]), encoding="utf-8")
    (place / "spec.yaml").write_text(SPEC, encoding="utf-8")
    run(place / "run")
    evaluated(place / "out")
    return place


def run(out: Path) -> Any:
    """A run of an experiment, a part for every example."""
    home = prepared() if out.name != "run" else out.parent
    model, data = str(home / "model"), str(home / "texts.txt")
    return reproduce(str(home / "spec.yaml"), model=model, data=data, out=out, progress=False, part_examples=1)


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


def prepare() -> None:
    """Makes what all cases share."""
    prepared()


def case(seed: int) -> Outcome:
    """Some kills of one run, or of one command."""
    dice = np.random.default_rng([seed, 5])
    prepared()
    place = Path(tempfile.mkdtemp(prefix="attack"))
    try:
        killed = (killed_command if seed % 3 == 0 else killed_run)(dice, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return Outcome("right", f"{killed} kills", tries=killed)

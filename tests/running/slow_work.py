"""Work for the tests of engines: real rows, slowly, with a log of who computed what, and with accidents on demand."""

import os
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from evaluation.tiny import many_tasks
from looprop.evaluation.example import Task, evaluate_example
from looprop.evaluation.setup import Setup
from looprop.models.adapter import Adapter
from looprop.running.missing import run_missing
from looprop.running.parts import Row
from looprop.running.store import open_store

COUNT = 24
"""So many tasks make a run."""
SETUP = Setup(("loo", "cp-lrp"), ("loo-r", "morf"))


def slow_work(adapter: Adapter | None, task: Task, folder: Path, seconds: float) -> list[Row]:
    """The rows of an example, after a while; without a model a row that says nothing.

    A file `raise-<id>` or `die-<id>` in the folder makes it fail, or end its process.
    """
    with (folder / "log").open("a", encoding="utf-8") as file:
        file.write(f"{task.id}\n")
    time.sleep(seconds)
    if (folder / f"raise-{task.id}").exists():
        raise RuntimeError(f"{task.id} was told to fail")
    if (folder / f"die-{task.id}").exists():
        os._exit(7)
    return [{"example": task.id}] if adapter is None else evaluate_example(adapter, task, SETUP)


def computed(folder: Path) -> Counter[str]:
    """How often each example was begun."""
    path = folder / "log"
    return Counter(path.read_text(encoding="utf-8").split()) if path.exists() else Counter()


def plain(rows: list[Row]) -> str:
    """Everything but the time, NaN included."""
    return repr([{**row, "seconds": 0} for row in rows])


def work_through(adapter: Any, folder: Path, engine: Any, *, seconds: float = 0.0) -> list[Row]:
    """All tasks, into a run folder; `folder` also has the log and the accidents."""
    tasks = many_tasks(COUNT)
    work = partial(slow_work, adapter, folder=folder, seconds=seconds)
    with open_store(folder / "run", {"test": "ray"}) as store:
        run_missing(store, tasks, work, engine=engine, progress=False)
        store.finish()
        return store.rows(task.id for task in tasks)

"""Work for the tests of engines: real rows, slowly, with a log of who computed what, and with accidents on demand."""

import os
import time
from collections import Counter
from pathlib import Path

from looprop.evaluation.example import Task, evaluate_example
from looprop.evaluation.setup import Setup
from looprop.models.adapter import Adapter
from looprop.running.parts import Row

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

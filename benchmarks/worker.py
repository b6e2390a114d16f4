"""The process of one side: reads requests from standard input, one JSON object per line, and answers each with one
line.

Run by `benchmarks.team` as `python -m benchmarks.worker SIDE THREADS` with the interpreter of the side's environment.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # waiting threads would count as CPU time

import ctypes
import gc
import json
import sys
import time
import warnings
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch

from benchmarks.environments import tidy
from benchmarks.exchange import load_model, read_case
from benchmarks.sides import Job, Jobs

CLEAR, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def run(job: Job, calls: int) -> dict[str, float]:
    """CPU and wall seconds of one unit, from so many calls."""
    start_cpu, start_wall = time.process_time(), time.perf_counter()
    for _ in range(calls):
        job.run()
    cpu, wall = time.process_time() - start_cpu, time.perf_counter() - start_wall
    return {"cpu": cpu / calls / job.units, "wall": wall / calls / job.units}


def memory(job: Job) -> dict[str, float | None]:
    """Megabytes that one run adds at its peak to the process at rest, None where the system cannot say; and the seconds
    of that run.
    """
    if not CLEAR.exists():
        return {"megabytes": None, **run(job, 1)}
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    CLEAR.write_text("5", encoding="ascii")  # the high-water mark starts anew
    before = _status("VmRSS")
    seconds = run(job, 1)
    return {"megabytes": max(0.0, _status("VmHWM") - before), **seconds}


def _status(name: str) -> float:
    line = next(line for line in STATUS.read_text(encoding="ascii").splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def answer(job: Job, path: str) -> dict[str, Any]:
    """One run, timed, its answer written as numpy arrays."""
    found: list[Any] = []
    seconds = run(Job(lambda: found.append(job.run()), job.units), 1)
    parts = found[0] if isinstance(found[0], (list, tuple)) else found
    np.savez(path, *[np.asarray(part, dtype=np.float64) for part in parts])
    return {**seconds, "units": job.units}


def versions(packages: list[str]) -> dict[str, str]:
    """What is installed here."""
    return {name: metadata.version(name) for name in packages}


class Desk:
    """The jobs that were prepared, by number."""

    def __init__(self, side: str) -> None:
        self.jobs: dict[int, Job] = {}
        self.known: Jobs = import_module(f"benchmarks.sides.{side}").JOBS

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request: prepare, run, memory, answer, forget or versions."""
        what = request["do"]
        if what == "prepare":
            case = read_case(Path(request["case"])) if request["case"] else None
            self.jobs[request["id"]] = self.known[request["job"]](case, **request["options"])
            return {"units": self.jobs[request["id"]].units}
        if what == "forget":
            self.jobs.clear()
            load_model.cache_clear()
            gc.collect()
            return {}
        if what == "versions":
            return {"versions": versions(request["packages"])}
        job = self.jobs[request["id"]]
        if what == "run":
            return dict(run(job, request["calls"]))
        return dict(memory(job)) if what == "memory" else answer(job, request["path"])


def serve(side: str, requests: TextIO, answers: TextIO) -> None:
    """Until the input ends. The first line says whether the side could be imported."""
    try:
        desk = Desk(side)
    except Exception as error:
        answers.write(json.dumps({"error": said(error)}) + "\n")
        answers.flush()
        return
    answers.write("{}\n")
    answers.flush()
    for line in requests:
        try:
            reply = desk.handle(json.loads(line))
        except Exception as error:  # whatever a library raises is reported, not dropped
            reply = {"error": said(error)}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


def said(error: Exception) -> str:
    """An error in a few lines."""
    return tidy(f"{type(error).__name__}: {error}", lines=3)[:400]


def main() -> None:
    """Answers go to the descriptor that was standard output; whatever libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    torch.set_num_threads(int(sys.argv[2]))
    serve(sys.argv[1], sys.stdin, answers)


if __name__ == "__main__":
    main()

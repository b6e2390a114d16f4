"""What benchmarks share: taking turns, medians of CPU and wall time, what machine it was, results as JSON."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Times:
    """Median seconds of CPU time of the process and of wall time."""

    cpu: float
    wall: float

    def __truediv__(self, count: float) -> "Times":
        return Times(self.cpu / count, self.wall / count)


def take_turns(jobs: Mapping[str, Callable[[], object]], *, repeats: int, warm_up: bool = True) -> dict[str, Times]:
    """Medians over interleaved runs: whatever else the machine does falls on all jobs alike."""
    cpu: dict[str, list[float]] = {name: [] for name in jobs}
    wall: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(-1 if warm_up else 0, repeats):
        for name, job in jobs.items():
            start_cpu, start_wall = time.process_time(), time.perf_counter()
            job()
            if turn >= 0:
                cpu[name].append(time.process_time() - start_cpu)
                wall[name].append(time.perf_counter() - start_wall)
    return {name: Times(statistics.median(cpu[name]), statistics.median(wall[name])) for name in jobs}


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    import torch
    import transformers

    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "load": os.getloadavg() if hasattr(os, "getloadavg") else None,
    }


def write_json(path: Path, result: Mapping[str, Any]) -> None:
    """Readable, and the same for the same result."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")

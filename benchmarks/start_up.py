"""What the command line costs before and beside the model: `looprop explain` of a short text with and without
PYTHONDONTWRITEBYTECODE, and leave-one-out of a long text on an idle machine and beside one process that never rests.

The variable forbids Python to keep what it compiles, as most containers do; what the installation has compiled is used
all the same. Every command is a fresh process; commands take turns. Seconds of CPU time of the process and of wall
time, medians.

    python -m benchmarks.start_up
    python -m benchmarks.start_up --repeats 2 --output elsewhere.json
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, Times, machine, write_json

OUTPUT = RESULTS / "start_up.json"
# CPU seconds of one start; and how much longer leave-one-out may take beside a busy core, in wall time.
BARS = {"start": 3.0, "busy": 1.5}
VARIABLE = "PYTHONDONTWRITEBYTECODE"
GIVEN = (VARIABLE, "OMP_WAIT_POLICY", "OMP_NUM_THREADS")
SHORT = "a good film"
LONG = " ".join(["The film is long and slow, but the two actors are wonderful and the end is a surprise."] * 6)
EXPLAIN = ("-m", "looprop", "explain")
SPIN = "while True: pass"


def once(arguments: Sequence[str], *, forbidden: bool = False) -> Times:
    """One fresh process: seconds of CPU and of wall time."""
    # Only what a user's shell would have: the bench must not set what the command line has to set by itself.
    surroundings = {name: value for name, value in os.environ.items() if name not in GIVEN}
    surroundings |= {VARIABLE: "1"} if forbidden else {}
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=surroundings
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"python {' '.join(arguments)} ended with code {process.returncode}")
    return Times(used.ru_utime + used.ru_stime, time.perf_counter() - start)


def median(found: Sequence[Times]) -> dict[str, float]:
    """Of CPU and of wall time."""
    return {"cpu": statistics.median(t.cpu for t in found), "wall": statistics.median(t.wall for t in found)}


@contextmanager
def busy_core() -> Iterator[None]:
    """Beside a process that never rests."""
    process = subprocess.Popen([sys.executable, "-c", SPIN])
    try:
        time.sleep(0.5)
        yield
    finally:
        process.kill()
        process.wait()


def starts(repeats: int) -> dict[str, dict[str, float]]:
    """`import torch` for comparison, and an explanation where byte code is allowed and where it is forbidden."""
    jobs: Mapping[str, tuple[Sequence[str], bool]] = {
        "import torch": (("-c", "import torch"), False),
        "explain": ((*EXPLAIN, SHORT), False),
        "explain, byte code forbidden": ((*EXPLAIN, SHORT), True),
    }
    found: dict[str, list[Times]] = {name: [] for name in jobs}
    for turn in range(-1, repeats):  # the first round warms up
        for name, (arguments, forbidden) in jobs.items():
            seconds = once(arguments, forbidden=forbidden)
            if turn >= 0:
                found[name].append(seconds)
    return {name: median(of) for name, of in found.items()}


def beside_a_busy_core(repeats: int) -> dict[str, Any]:
    """Leave-one-out of a long text by the command line, alone and beside a process that never rests, in turns."""
    command = (*EXPLAIN, LONG, "--method", "loo")
    once(command)
    alone, beside = [], []
    for _ in range(repeats):
        alone.append(once(command))
        with busy_core():
            beside.append(once(command))
    ratio = statistics.median(b.wall / a.wall for a, b in zip(alone, beside, strict=True))
    return {"alone": median(alone), "beside": median(beside), "ratio": ratio}


def main() -> int:
    """Measures and writes what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    about = machine()
    started, busy = starts(options.repeats), beside_a_busy_core(options.repeats)
    slowest = max(of["cpu"] for name, of in started.items() if name.startswith("explain"))
    met = {"start": slowest <= BARS["start"], "busy": busy["ratio"] <= BARS["busy"]}
    result = {"bars": BARS, "starts": started, "loo": busy, "met": met, "machine": about}
    write_json(options.output, result)
    for name, of in (*started.items(), ("LOO alone", busy["alone"]), ("LOO beside a busy core", busy["beside"])):
        print(f"{name}: {of['cpu']:.2f} s CPU, {of['wall']:.2f} s wall")
    print(f"busy over idle: {busy['ratio']:.2f}; met: {met}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

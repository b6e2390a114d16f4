"""The engine ray: two workers beside one, and what the driver costs on 100,000 examples.

    scaling    the embedded model, 200 SST-2 sentences, leave-one-out, one and two workers of one thread each, taking
               turns. Throughput is the sum over workers of examples per second from when the worker is ready to the end
               of the run: starting Python and loading the model is left out, waiting at the end is not.
    driver     100,000 synthetic sentences through a stub that answers at once, into a run folder: growth of the
               driver's memory, and seconds per example from the first worker's readiness to the end, without what the
               stub itself took.

    LOOPROP_DATA=... python -m benchmarks.ray_scaling
    python -m benchmarks.ray_scaling --quick         # few sentences: does it run?

Bars: 1.7 times the throughput; 300 MB; 5 ms an example.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, machine, write_json
from benchmarks.cost_model import SIZES
from looprop.evaluation.example import Row, Task, evaluate_example
from looprop.evaluation.setup import Setup
from looprop.running.missing import run_missing
from looprop.running.ray.engine import RayEngine, RayRun
from looprop.running.store import open_store

WORDS = "the film is not very good but a great plot and dull acting make it one of the best of its year".split()


def scaling(count: int, repeats: int) -> dict[str, Any]:
    """Throughput of two workers over that of one, and the cost model's word on it."""
    from looprop.inputs import demo_sentences, load_dataset
    from looprop.inputs.examples import make_dataset
    from looprop.models.loading import load_adapter

    if os.environ.get("LOOPROP_DATA"):
        data = load_dataset("sst2", limit=count)
    else:
        whole = demo_sentences()
        data = make_dataset(whole.name, whole.split, whole.examples, limit=min(count, len(whole)))
    adapter = load_adapter()
    tasks = [Task(example.id, example.text) for example in data]
    work = partial(evaluate_example, adapter, setup=Setup(("loo",), ("loo-r",)))
    found: dict[int, list[float]] = {1: [], 2: []}
    accounts: dict[int, Any] = {}
    for _ in range(repeats):
        for workers in found:
            run = RayEngine(workers=workers)(work, tasks)
            assert isinstance(run, RayRun)
            assert len(list(run)) == len(tasks)
            accounts[workers] = run.account()
            found[workers].append(
                sum(worker["examples"] / worker["present"] for worker in accounts[workers]["workers"])
            )
    rates = {workers: statistics.median(values) for workers, values in found.items()}
    tokens = [len(adapter.encode(task.item, truncation=True)) for task in tasks]
    gflops = sum(n * SIZES["embedded"].flops(n) for n in tokens) / 1e9
    result = {
        "data": data.title,
        "examples": len(tasks),
        "examples_per_second": rates,
        "all": found,
        "ratio": rates[2] / rates[1],
        "bar": 1.7,
    }
    result |= {"gflop_per_example": gflops / len(tasks), "gflops_per_second_of_one": gflops / len(tasks) * rates[1]}
    cpu = {
        workers: sum(worker["cpu"] for worker in account["workers"]) / len(tasks)
        for workers, account in accounts.items()
    }
    result |= {"cpu_seconds_per_example": cpu, "gflops_by_cpu_time": gflops / len(tasks) / cpu[1]}
    result |= {
        "waiting": {workers: account["waiting"] for workers, account in accounts.items()},
        "met": rates[2] >= 1.7 * rates[1],
    }
    print(
        f"scaling, {data.title}: {rates[1]:.2f}/s with one worker, {rates[2]:.2f}/s with two: {result['ratio']:.2f} "
        "times",
        flush=True,
    )
    return result


def stub(task: Task) -> list[Row]:
    """A row like those of an evaluation, without a model."""
    scores = [float(len(word)) for word in task.item.split()]
    numbers = {
        "features": len(scores),
        "output": 0.5,
        "loo-r": 0.25,
        "morf": -1.0,
        "lerf": 1.0,
        "cost": 1.0,
        "seconds": 0.0,
    }
    return [
        {
            "example": task.id,
            "method": "stub",
            "label": "positive",
            **numbers,
            "error": "",
            "scores": scores,
            "loo": scores,
        }
    ]


def driver(count: int) -> dict[str, Any]:
    """Memory and time of the driver."""
    tasks = [
        Task(f"synthetic/{i}", " ".join(WORDS[(i + j) % len(WORDS)] for j in range(6 + i % 14))) for i in range(count)
    ]
    run: list[RayRun] = []

    def engine(work: Any, items: Any) -> RayRun:
        run.append(RayEngine(workers=2)(work, items))
        return run[0]

    with tempfile.TemporaryDirectory() as folder, memory() as growth:
        with open_store(folder, {"benchmark": "driver"}) as store:
            run_missing(store, tasks, stub, engine=engine, progress=False)
            assert not store.missing(task.id for task in tasks)
        end = time.monotonic()
    account, tallies = run[0].account(), run[0].accounts.tallies
    seconds = end - min(tally.began for tally in tallies)
    busy = sum(tally.busy for tally in tallies) / len(tallies)
    result = {
        "examples": count,
        "memory_growth_mb": growth[0],
        "seconds": seconds,
        "shards": sum(tally.shards for tally in tallies),
    }
    result |= {
        "milliseconds_per_example": 1e3 * (seconds - busy) / count,
        "waiting": account["waiting"],
        "bars": {"mb": 300, "ms": 5},
    }
    result["met"] = result["memory_growth_mb"] < 300 and result["milliseconds_per_example"] < 5
    print(
        f"driver, {count} examples: {growth[0]:.0f} MB, {result['milliseconds_per_example']:.2f} ms an example",
        flush=True,
    )
    return result


@contextmanager
def memory() -> Iterator[list[float]]:
    """The largest growth of this process's resident memory, in MB, looked at ten times a second."""

    def resident() -> float:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))

    def watch() -> None:
        while not done.wait(0.1):
            growth[0] = max(growth[0], resident() - start)

    import ray  # noqa: F401 - the library itself is no growth
    import torch  # noqa: F401

    done, growth, start = threading.Event(), [0.0], resident()
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield growth
    finally:
        done.set()
        thread.join()


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write JSON; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=["scaling", "driver"], default=["scaling", "driver"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path, default=RESULTS / "ray_scaling.json")
    given = parser.parse_args(arguments)
    import ray

    ray.init(num_cpus=2, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    result: dict[str, Any] = {**machine(), "ray": ray.__version__, "quick": given.quick}
    if "scaling" in given.only:
        result["scaling"] = scaling(12 if given.quick else 200, 1 if given.quick else given.repeats)
    if "driver" in given.only:
        result["driver"] = driver(2_000 if given.quick else 100_000)
    result["load_after"] = os.getloadavg()
    ray.shutdown()
    write_json(given.output, result)
    missed = [name for name in given.only if not result[name]["met"]]
    print(f"{'below the bar: ' + ', '.join(missed) if missed else 'all bars met'}; written to {given.output}")
    return int(bool(missed) and not given.quick)


if __name__ == "__main__":
    sys.exit(main())

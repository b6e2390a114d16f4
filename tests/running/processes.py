"""Processes of a Ray cluster that this process, or another, has started: found by their parents, so that no other
cluster is touched. Linux only.
"""

import os
import signal
import time
from pathlib import Path


def below(parent: int) -> dict[int, str]:
    """The command lines of all processes below one."""
    children: dict[int, list[tuple[int, str]]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            above = int((place / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        except (OSError, ValueError):  # it has gone
            continue
        children.setdefault(above, []).append((int(place.name), words))
    found: dict[int, str] = {}
    todo = [parent]
    while todo:
        for number, words in children.get(todo.pop(), []):
            found[number] = words
            todo.append(number)
    return found


def drivers() -> list[int]:
    """Drivers that this process has started."""
    return [number for number, words in below(os.getpid()).items() if "looprop.running.ray.apart" in words]


def kill_worker(patience: float = 120) -> bool:
    """Kill a worker in the middle of a task, waiting so many seconds for one that has a task; whether there was one."""
    return _killed("ray::ShardWorker.compute", patience)


def kill_node() -> None:
    """Kill the only node: a worker first, which would go on for a while."""
    assert kill_worker()
    assert _killed("/raylet/raylet ", 120)


def _killed(sign: str, patience: float) -> bool:
    """Kill a process of the driver that this process has started."""
    end = time.monotonic() + patience
    while True:
        for driver in drivers():
            for number, words in below(driver).items():
                if sign in words:
                    os.kill(number, signal.SIGKILL)
                    return True
        if time.monotonic() >= end:
            return False
        time.sleep(0.01)

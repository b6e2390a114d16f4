"""Finding a Ray cluster, within seconds or with a reason, and the room on it."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from looprop.errors import ClusterError

# Ray itself would go on trying for two minutes, and then end the process.
CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 20.0
# What a worker needs besides its models: Python, torch and transformers.
BASE_MEMORY = 768 * 2**20


def import_ray() -> Any:
    """Ray, or one sentence that says how to get it."""
    try:
        import ray
    except ImportError:
        raise ClusterError("engine 'ray' needs Ray, which is not installed: pip install 'looprop[ray]'") from None
    return ray


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Ray, connected: to a cluster, or to one that is started on this machine and ended afterwards."""
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    # A cluster that is started here reports to nobody.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        ray.init(address=address, **options)
    except (ConnectionError, RuntimeError, ValueError, SystemExit) as error:
        raise ClusterError(f"cannot connect to a Ray cluster at {address or 'this machine'}: {error}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def check_address(address: str | None) -> None:
    """Raise within half a minute where no Ray cluster answers."""
    if address is None or address in ("", "auto", "local"):
        return
    if "://" in address:
        raise ClusterError(
            f"address {address!r} is for Ray Client; expected host:port of the head of a cluster, from one of its "
            "machines"
        )
    # In brackets where the host is an IPv6 address.
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ClusterError(f"address must be host:port, 'auto' or 'local', got {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ClusterError(
            f"no Ray cluster can be reached at {address}: {getattr(error, 'strerror', None) or error}"
        ) from error
    # In a process of its own: Ray's own checks cannot be interrupted.
    question = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    try:
        answer = subprocess.run(question, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise ClusterError(
            f"what listens at {address} did not answer like a Ray cluster within {ANSWER_SECONDS:.0f} seconds"
        ) from None
    if answer.returncode:
        reason = (answer.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ClusterError(f"what answers at {address} is no Ray cluster, or one of another version: {reason}")


@dataclass(frozen=True)
class WorkerSize:
    """What one worker takes: processors, GPUs (or a share of one), bytes of memory."""

    processors: int
    gpus: float
    memory: int

    def __str__(self) -> str:
        gpus = f", {self.gpus:g} GPU" if self.gpus else ""
        return f"{self.processors} CPU{gpus}, {self.memory / 2**30:.1f} GB"

    def fits(self, room: dict[str, float]) -> int:
        """How many such workers a machine holds."""
        counts = [room.get("CPU", 0.0) / self.processors, room.get("memory", 0.0) / self.memory]
        if self.gpus:
            counts.append(room.get("GPU", 0.0) / self.gpus)
        return int(min(counts) + 1e-9)


def rooms(nodes: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """What the living machines have, by node."""
    return {node["NodeID"]: node["Resources"] for node in nodes if node["Alive"]}

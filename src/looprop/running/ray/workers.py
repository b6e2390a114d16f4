"""What runs on the machines of a cluster: an actor that loads its models once and computes shards."""

import platform
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from looprop.errors import ClusterError
from looprop.running.provenance import versions
from looprop.running.ray.sending import Parcel, unpack_work
from looprop.running.ray.shards import said


@dataclass(frozen=True)
class ShardOutcome:
    """What became of a shard: results by position, errors by position, the seconds that it took, and those of its
    processors.
    """

    results: dict[int, Any]
    errors: dict[int, str]
    seconds: float
    cpu: float = 0.0


class Worker:
    """Computes shards, one after the other."""

    def __init__(self, threads: int) -> None:
        # Results are the same bit for bit only for the same number of threads: said here, not guessed from the machine.
        torch.set_num_threads(threads)
        self._work: Any = None

    def prepare(self, parcel: Parcel, expected: dict[str, str], accelerated: bool) -> dict[str, Any]:
        """Load everything, and say where this worker is and what it computes with. What is raised here ends the run: it
        would be the same for every shard.
        """
        machine, here = socket.gethostname(), versions()
        if here["looprop"] != expected["looprop"]:
            raise ClusterError(
                f"looprop is {here['looprop']} on {machine} and {expected['looprop']} on the driver: install one "
                "version"
            )
        device = torch.device("cuda" if accelerated and torch.cuda.is_available() else "cpu")
        try:
            self._work = unpack_work(parcel, device)
        except Exception as error:  # not every error can be sent, its words can
            raise ClusterError(f"{machine} could not load what it needs: {type(error).__name__}: {error}") from None
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
        return {"machine": machine, "device": name, "threads": torch.get_num_threads(), "torch": here["torch"]}

    def compute(self, items: Sequence[Any]) -> ShardOutcome:
        """Every item of a shard; one that fails does not keep the others from being computed."""
        start, start_cpu = time.perf_counter(), time.process_time()
        results: dict[int, Any] = {}
        errors: dict[int, str] = {}
        for i, item in enumerate(items):
            try:
                results[i] = self._work(item)
            except Exception as error:
                errors[i] = said(error)
        return ShardOutcome(results, errors, time.perf_counter() - start, time.process_time() - start_cpu)

"""The workers of a cluster: how work reaches one, and what it does there. It loads its models once and computes shards.

Work is sent as a pickle, in which every model that has a name stands as that name. A worker loads such a model itself,
from its own disk or cache, and compares weights, configuration, tokenizer and code with the driver's; ready-made models
travel whole. So does code that was loaded from a folder.
"""

import io
import pickle
import platform
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from looprop.errors import ClusterError, ModelError
from looprop.models.adapter import Adapter
from looprop.models.loading import load_adapter
from looprop.models.origin import Origin
from looprop.removal.trust import limit_batches
from looprop.running.engines import LOADED_FROM_FOLDER
from looprop.running.manifest import compare
from looprop.running.model_identity import model_identity
from looprop.running.provenance import versions
from looprop.running.ray.shards import said


@dataclass(frozen=True)
class Parcel:
    """Work as bytes. size: the bytes of the parameters of its models. longest: the most tokens that they take, where
    they say.
    """

    content: bytes
    size: int
    longest: int | None


def pack_work(work: Any) -> Parcel:
    """Work as a parcel, to be opened by `unpack_work` in another process."""
    from ray import cloudpickle

    for name, module in [*sys.modules.items()]:
        if name.startswith(LOADED_FROM_FOLDER):
            cloudpickle.register_pickle_by_value(module)
    adapters: list[Adapter] = []

    class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
        def persistent_id(self, obj: Any) -> Any:
            if not isinstance(obj, Adapter):
                return None
            adapters.append(obj)
            if obj.origin is not None:
                return "named", obj.origin, model_identity(obj)
            if any(parameter.device.type != "cpu" for parameter in obj.model.parameters()):
                raise ClusterError(
                    f"{obj.name} is on {obj.device}: a ready-made model is sent from the CPU, workers put it on their "
                    "GPU"
                )
            return "whole", cloudpickle.dumps(obj)

    sink = io.BytesIO()
    try:
        Pickler(sink).dump(work)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise ClusterError(f"the work cannot be sent to other processes: {error}") from error
    size = sum(p.numel() * p.element_size() for adapter in adapters for p in adapter.model.parameters())
    known = [longest for adapter in adapters if (longest := getattr(adapter, "longest", None)) is not None]
    return Parcel(sink.getvalue(), size, max(known, default=None))


def unpack_work(parcel: Parcel, device: torch.device) -> Any:
    """The work, its models loaded and on the device."""

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, pid: Any) -> Adapter:
            kind, *rest = pid
            adapter: Adapter = load_again(*rest, device=device) if kind == "named" else pickle.loads(rest[0])
            adapter.model.to(device)
            if device.type == "cuda":
                limit_batches(adapter, positions_that_fit(adapter, torch.cuda.mem_get_info(device)[0]))
            return adapter

    return Unpickler(io.BytesIO(parcel.content)).load()


def positions_that_fit(adapter: Adapter, free: int) -> int | None:
    """How many positions a batch may hold in `free` bytes, from the sizes in the model's configuration; None where it
    has none.

        free / 4 / (bytes of a number * (10 width + 3 inner width))

    It is a first guess: where memory runs out all the same, the set function halves its batches and keeps to the
    smaller size.
    """
    config = getattr(adapter.model, "config", None)
    width = getattr(config, "hidden_size", None) or getattr(config, "n_embd", None)
    if not isinstance(width, int):
        return None
    inner = getattr(config, "intermediate_size", None) or 4 * width
    element = next(adapter.model.parameters()).element_size()
    return max(1, int(free / 4 / (element * (10 * width + 3 * inner))))


def load_again(origin: Origin, identity: dict[str, Any], *, device: torch.device) -> Adapter:
    """The model of the driver from this machine; raises if it is another one here."""
    # Loaded for an accelerator, weights keep the dtype of their file; for the CPU they become float32. The driver chose
    # which.
    if origin.accelerated and device.type == "cpu":
        raise ModelError(f"{origin.source!r} was loaded for a GPU, and this worker has none")
    adapter = load_adapter(
        origin.source, trust_remote_code=origin.trust_remote_code, device=device if origin.accelerated else None
    )
    if changed := compare(identity, model_identity(adapter)).changed:
        raise ModelError(
            f"{adapter.name!r} is not the model of the driver, changed: {'; '.join(changed)}. Another version lies on "
            "this machine, or the model was changed after it was loaded; in that case send it whole, "
            "load((model, tokenizer))"
        )
    return adapter


@dataclass(frozen=True)
class ShardOutcome:
    """What became of a shard: results by position, errors by position, the seconds that it took, and those of its
    processors.
    """

    results: dict[int, Any]
    errors: dict[int, str]
    seconds: float
    cpu: float = 0.0


class ShardWorker:
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

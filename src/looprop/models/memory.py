"""Whether the weights of a model fit into memory, asked before any of them is made."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from looprop.errors import ModelError
from looprop.limits import MODEL_BYTES

_GROUP = Path("/sys/fs/cgroup")


def check_size(build: Callable[[], Any], name: str, *, bytes_per_number: int) -> None:
    """Raise for a model whose weights take more memory than there is.

    build: makes the model from its configuration; here without data, so that only names and shapes are made.
    """
    try:
        with torch.device("meta"):
            model = build()
    except Exception:  # no way to make it so: what is wrong with it is said where it is loaded
        return
    size, free = bytes_per_number * sum(parameter.numel() for parameter in model.parameters()), free_memory()
    MODEL_BYTES.check(size, f"the weights of {name} are too large", ModelError)
    if MODEL_BYTES.value is None and free is not None and size > free:
        raise ModelError(
            f"the weights of {name} take {size:,} bytes by its configuration, and {free:,} are free: a smaller model, "
            f"a larger machine, or set {MODEL_BYTES.variable} to at least {size} to try all the same"
        )


def free_memory() -> int | None:
    """Bytes that can still be had, also within the bounds of a container; None where the system does not say."""
    found: list[int] = []
    with contextlib.suppress(OSError, ValueError, IndexError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]))
    with contextlib.suppress(OSError, ValueError):
        bound, used = (int((_GROUP / f"memory.{part}").read_text(encoding="ascii")) for part in ("max", "current"))
        found.append(bound - used + _cached())
    if not found:
        with contextlib.suppress(OSError, ValueError, AttributeError):  # as much as is built in
            found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(found) if found else None


def _cached() -> int:
    """Of a container's memory, the files that are kept only for as long as nobody needs the room."""
    for line in (_GROUP / "memory.stat").read_text(encoding="ascii").splitlines():
        if line.startswith("inactive_file "):
            return int(line.split()[1])
    return 0

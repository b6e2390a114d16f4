"""Where numbers come from: hashes of weights, versions, the machine."""

import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

PACKAGES = ("looprop", "torch", "transformers", "tokenizers", "numpy", "scipy", "pyarrow")


def weights_hash(model: "nn.Module") -> str:
    """SHA-256 over names, types, shapes and bytes of all parameters and buffers."""
    import torch  # a run folder can be read without it

    total = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        total.update(f"{name}:{value.dtype}:{tuple(value.shape)}:".encode())
        total.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def fingerprint(data: Mapping[str, Any]) -> str:
    """SHA-256 of plain data, whatever the order of its keys.

    >>> fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(data, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that numbers depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:  # run from a source tree that is not installed
            found[package] = "not installed"
    return found


def hardware() -> dict[str, Any]:
    """What computes: processor, threads, accelerator. Without torch there are no threads of its own, nor an
    accelerator.
    """
    torch = sys.modules.get("torch")
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "processors": os.cpu_count(),
        "threads": torch.get_num_threads() if torch else None,
        "accelerator": torch.cuda.get_device_name() if torch and torch.cuda.is_available() else None,
    }


def now() -> str:
    """The time in UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

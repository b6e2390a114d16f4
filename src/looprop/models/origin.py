"""Where a model was loaded from, and where those that do not ship with the package are kept on this machine."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Origin:
    """Where a model was loaded from, so that another process can load it too. accelerated: for a device but the CPU."""

    source: str | None
    trust_remote_code: bool = False
    accelerated: bool = False


def cache_folder() -> Path:
    """The folder of LOOPROP_CACHE, else ~/.cache/looprop. It need not exist."""
    given = os.environ.get("LOOPROP_CACHE")
    return Path(given).expanduser() if given else Path.home() / ".cache" / "looprop"


def model_folder(name: str) -> Path:
    """The folder of the model `name` in the cache. It need not exist."""
    return cache_folder() / "models" / name

"""Where models that do not ship with the package are kept on this machine."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder of LOOPROP_CACHE, else ~/.cache/looprop. It need not exist."""
    given = os.environ.get("LOOPROP_CACHE")
    return Path(given).expanduser() if given else Path.home() / ".cache" / "looprop"


def model_folder(name: str) -> Path:
    """The folder of the model `name` in the cache. It need not exist."""
    return cache_folder() / "models" / name

"""Where models that do not ship with the package are kept on this machine."""

import os
from pathlib import Path

from looprop.errors import InputError


def cache_folder() -> Path:
    """The folder of LOOPROP_CACHE, else ~/.cache/looprop. It need not exist."""
    given = os.environ.get("LOOPROP_CACHE")
    return Path(given).expanduser() if given else Path.home() / ".cache" / "looprop"


def model_folder(name: str) -> Path:
    """The folder of the model `name` in the cache. It need not exist."""
    if not name or name != Path(name).name or name in (".", ".."):
        raise InputError(f"the name of a model in the cache must be one plain word such as 'mpnet-sst2', got {name!r}")
    return cache_folder() / "models" / name

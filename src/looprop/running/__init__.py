"""Who computes, what is kept, and how a run that stopped goes on. Knows nothing of methods or metrics."""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.running.engines import Engine, Sharded, describe, engine_names, get_engine
    from looprop.running.missing import run_missing
    from looprop.running.opening import OldManifestWarning, open_store
    from looprop.running.parts import Row
    from looprop.running.progress import Advance, progress_bar
    from looprop.running.store import Store, read_store

# Imported when first used: the store needs torch and pyarrow, the bar needs rich.
_HOMES = {
    "Advance": "looprop.running.progress",
    "Engine": "looprop.running.engines",
    "OldManifestWarning": "looprop.running.opening",
    "Row": "looprop.running.parts",
    "Sharded": "looprop.running.engines",
    "Store": "looprop.running.store",
    "describe": "looprop.running.engines",
    "engine_names": "looprop.running.engines",
    "get_engine": "looprop.running.engines",
    "open_store": "looprop.running.opening",
    "progress_bar": "looprop.running.progress",
    "read_store": "looprop.running.store",
    "run_missing": "looprop.running.missing",
}

__all__ = [
    "Advance",
    "Engine",
    "OldManifestWarning",
    "Row",
    "Sharded",
    "Store",
    "describe",
    "engine_names",
    "get_engine",
    "open_store",
    "progress_bar",
    "read_store",
    "run_missing",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)

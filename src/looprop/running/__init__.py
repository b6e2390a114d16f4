"""Who computes, what is kept, and how a run that stopped goes on. Knows nothing of methods or metrics."""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.running.engines import (
        Engine as Engine,
        Sharded as Sharded,
        describe as describe,
        engine_names as engine_names,
        get_engine as get_engine,
    )
    from looprop.running.missing import run_missing as run_missing
    from looprop.running.parts import Row as Row
    from looprop.progress import Advance as Advance, progress_bar as progress_bar
    from looprop.running.store import (
        OldManifestWarning as OldManifestWarning,
        Store as Store,
        open_store as open_store,
        read_store as read_store,
    )

# Imported when first used: the store needs torch and pyarrow, the bar needs rich.
__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "engines": "Engine Sharded describe engine_names get_engine",
        "missing": "run_missing",
        "parts": "Row",
        "looprop.progress": "Advance progress_bar",
        "store": "OldManifestWarning Store open_store read_store",
    },
)

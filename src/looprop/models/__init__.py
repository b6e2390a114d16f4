"""Models of every kind behind one interface: encode an input, run it, read the target off its logits."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from looprop.models.adapter import Adapter
    from looprop.models.encoded import Encoded, partition
    from looprop.models.subject import Subject, bind
    from looprop.models.target import Target, TargetLike

# Imported when first used: torch takes its time.
_HOMES = {
    "Adapter": "looprop.models.adapter",
    "Encoded": "looprop.models.encoded",
    "Subject": "looprop.models.subject",
    "Target": "looprop.models.target",
    "TargetLike": "looprop.models.target",
    "bind": "looprop.models.subject",
    "partition": "looprop.models.encoded",
}

__all__ = [
    "Adapter",
    "Encoded",
    "Subject",
    "Target",
    "TargetLike",
    "bind",
    "partition",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

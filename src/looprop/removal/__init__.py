"""The set function: what is the target's value when only these features are kept?"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from looprop.models.adapter import Removal
    from looprop.removal.set_function import Precision, SetFunction

# Imported when first used: torch takes its time.
_HOMES = {
    "Precision": "looprop.removal.set_function",
    "Removal": "looprop.models.adapter",
    "SetFunction": "looprop.removal.set_function",
}

__all__ = [
    "Precision",
    "Removal",
    "SetFunction",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

"""The set function: what is the target's value when only these features are kept?"""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

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

__getattr__, __dir__ = lazily(__name__, _HOMES)

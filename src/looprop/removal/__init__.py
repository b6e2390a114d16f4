"""The set function: what is the target's value when only these features are kept?"""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.models.adapter import Removal
    from looprop.removal.value import Precision, SetFunction

# Imported when first used: torch takes its time.
_HOMES = {
    "Precision": "looprop.removal.value",
    "Removal": "looprop.models.adapter",
    "SetFunction": "looprop.removal.value",
}

__all__ = [
    "Precision",
    "Removal",
    "SetFunction",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)

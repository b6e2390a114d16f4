"""The set function: what is the target's value when only these features are kept?"""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.models.adapter import Removal as Removal
    from looprop.removal.value import Precision as Precision, SetFunction as SetFunction

# Imported when first used: torch takes its time.
__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "looprop.models.adapter": "Removal",
        "value": "Precision SetFunction",
    },
)

"""Models of every kind behind one interface: encode an input, run it, read the target off its logits."""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

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

__getattr__, __dir__ = lazily(__name__, _HOMES)

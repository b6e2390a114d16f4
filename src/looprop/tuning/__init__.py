"""A plan for one model, searched on training texts: chosen on one half of them, reported on the other.

The verb itself is `looprop.tune`.
"""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.tuning.candidates import Candidate
    from looprop.tuning.result import Trial, Tuning

_HOMES = {
    "Candidate": "looprop.tuning.candidates",
    "Trial": "looprop.tuning.result",
    "Tuning": "looprop.tuning.result",
}

__all__ = ["Candidate", "Trial", "Tuning"]

__getattr__, __dir__ = lazily(__name__, _HOMES)

"""A plan for one model, searched on training texts: chosen on one half of them, reported on the other.

The verb itself is `looprop.tune`.
"""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.tuning.candidates import Candidate as Candidate
    from looprop.tuning.result import Trial as Trial, Tuning as Tuning

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "candidates": "Candidate",
        "result": "Trial Tuning",
    },
)

"""Everything looprop raises on purpose.

LoopropError
├── InputError            what was given cannot be explained (empty, too long, NaN, wrong shape)
│   ├── TargetError       the target does not exist for this model
│   └── DataError         a data file is missing, broken or not in the stated form
├── UnknownNameError      an unknown name; carries the closest known ones
├── PlanError             a plan that cannot be carried out (unknown layer, unknown rule)
├── ModelError            a model that cannot be loaded or is not understood
└── RuleError             an operation that relevance cannot be propagated through
    └── UnseenError       something ran where the engine cannot look
"""

import difflib
from collections.abc import Iterable


class LoopropError(Exception):
    """Base of all errors that looprop raises on purpose."""


class InputError(LoopropError, ValueError):
    """What was given cannot be explained."""


class TargetError(InputError):
    """The target does not exist for this model."""


class DataError(InputError):
    """A data file is missing, broken or not in the stated form."""


class UnknownNameError(LoopropError, ValueError):
    """An unknown name, with the closest known ones in the message."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        close = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"known: {', '.join(names)}"
        super().__init__(f"unknown {kind} {name!r}; {hint}")


class PlanError(LoopropError, ValueError):
    """A plan that cannot be carried out."""


class ModelError(LoopropError, RuntimeError):
    """A model that cannot be loaded or is not understood."""


class RuleError(LoopropError, RuntimeError):
    """An operation that relevance cannot be propagated through."""


class UnseenError(RuleError):
    """Something ran where the engine cannot look."""

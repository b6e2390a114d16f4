"""Everything looprop raises on purpose.

LoopropError
├── InputError            what was given cannot be explained (empty, too long, NaN, wrong shape)
│   ├── TargetError       the target does not exist for this model
│   └── DataError         a data file is missing, broken or not in the stated form
├── UnknownNameError      an unknown name; carries the closest known ones
├── PlanError             a plan that cannot be carried out (unknown layer, unknown rule)
├── ModelError            a model that cannot be loaded or is not understood
├── ClusterError          a Ray cluster is missing, out of reach or cannot be used
│   └── ShardError        some examples failed again and again; the others are done
└── RuleError             an operation that relevance cannot be propagated through
    └── UnseenError       something ran where relevance propagation cannot look
"""

import difflib
from collections.abc import Iterable, Mapping


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
        written = {one.casefold(): one for one in names}
        close = [written[one] for one in difflib.get_close_matches(name.casefold(), written, n=3, cutoff=0.4)]
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"known: {', '.join(names)}"
        super().__init__(f"unknown {kind} {name!r}; {hint}")


class PlanError(LoopropError, ValueError):
    """A plan that cannot be carried out."""


class ModelError(LoopropError, RuntimeError):
    """A model that cannot be loaded or is not understood."""


class ClusterError(LoopropError, RuntimeError):
    """A Ray cluster is missing, out of reach or cannot be used."""


class ShardError(ClusterError):
    """Some examples failed again and again, and all others are done. failed: the errors by example."""

    def __init__(self, failed: Mapping[str, str], *, attempts: int, hint: str = "") -> None:
        self.failed, self.attempts = dict(failed), attempts
        names = list(self.failed)
        shown = "; ".join(f"{name}: {self.failed[name]}" for name in names[:3])
        more = f"; and {', '.join(names[3:23])}{' and others' * (len(names) > 23)}" if names[3:] else ""
        count = f"{len(names)} example{'s' * (len(names) > 1)}"
        often = "" if attempts == 1 else f" {attempts} times"
        super().__init__(f"{count} failed{often}, all others are done: {shown}{more}{hint}")


class RuleError(LoopropError, RuntimeError):
    """An operation that relevance cannot be propagated through."""


class UnseenError(RuleError):
    """Something ran where relevance propagation cannot look."""

"""The same model and inputs with nothing found out yet: what is proven of one writing need not hold for another.

An adapter remembers what it has tried once about its model, a subject what it has computed once about its input. Both
are right as long as the model stays as it is, and an audit writes it anew again and again.
"""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from looprop.models.adapter import Adapter
from looprop.models.subject import Subject

# What an adapter finds out about its model on the way, and what that is before anything is known. Not every kind of
# adapter has all of it.
_UNKNOWN: dict[str, Callable[[], Any]] = {
    "proofs": dict,
    "budget": lambda: None,
    "_layers": lambda: None,
    "_leading": lambda: None,
    "_read": lambda: None,
}


def renewed(adapter: Adapter) -> Adapter:
    """The same model behind an adapter that has found out nothing yet."""
    other = copy(adapter)
    for name, nothing in _UNKNOWN.items():
        if name in vars(other):
            setattr(other, name, nothing())
    return other


def rebound(subjects: Sequence[Subject], adapter: Adapter) -> list[Subject]:
    """The same inputs, targets and features on another writing of the model, with nothing known of them."""
    return [Subject(adapter, s.encoded, s.target, s.features) for s in subjects]

"""The method that explains where none is named: `looprop`, and another where that has no meaning, never silently."""

import warnings
from collections.abc import Callable, Mapping
from typing import TypeVar

from looprop.errors import DataError, InputError, LoopropError, ModelError, RuleError, TargetError
from looprop.methods.base import Method
from looprop.methods.names import DEFAULT
from looprop.methods.registry import make_method

Result = TypeVar("Result")

# Methods in turn, each with the refusals after which the next is asked: no meaning for such a model; no rules for it.
IN_TURN: tuple[tuple[str, tuple[type[LoopropError], ...]], ...] = (
    (DEFAULT, (InputError, ModelError, RuleError)),
    ("attnlrp", (RuleError,)),
    ("loo", ()),
)


class DefaultMethodWarning(UserWarning):
    """The default method has no meaning for a model, and another one took its place."""


def by_default(run: Callable[[Method], Result]) -> tuple[Result, Mapping[str, str]]:
    """What the default gives; where it refuses the model, what the next method gives, with a warning; and the reasons,
    by method. A wrong target, or a model that does not answer as it should, is as wrong for the next one, and raises.
    """
    refused: dict[str, str] = {}
    for name, refusals in IN_TURN:
        try:
            found = run(make_method(name))
            break
        except refusals as error:
            if isinstance(error, TargetError | DataError):
                raise
            refused[name] = str(error)
    if refused:
        reasons = "; ".join(f"{other}: {reason}" for other, reason in refused.items())
        warnings.warn(f"explained by {name}, as {reasons}", DefaultMethodWarning, stacklevel=3)
    return found, refused

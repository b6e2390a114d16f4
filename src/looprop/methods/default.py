"""The method that explains where none is named: `looprop`, and another where that has no meaning, never silently."""

import warnings
from collections.abc import Callable, Mapping
from typing import TypeVar

from looprop.errors import DataError, InputError, RuleError, TargetError
from looprop.methods.base import Method
from looprop.methods.names import DEFAULT
from looprop.methods.registry import make_method

Result = TypeVar("Result")

# What explains in the default's place: where there are no tokens that attend to each other, and where relevance cannot
# be propagated either.
INSTEAD = ("attnlrp", "loo")


class DefaultMethodWarning(UserWarning):
    """The default method has no meaning for a model, and another one took its place."""


def by_default(run: Callable[[Method], Result]) -> tuple[Result, Mapping[str, str]]:
    """What the default gives; where it refuses the model, what the first of the others gives that does not, with a
    warning; and the reasons, by method.

    Only refusals of the method are met in this way. A wrong target or a model that does not answer as it should is as
    wrong for any other method, and raises.
    """
    refused: dict[str, str] = {}
    for name in (DEFAULT, *INSTEAD):
        try:
            found = run(make_method(name))
        except (InputError, RuleError) as error:
            if isinstance(error, TargetError | DataError) or name == INSTEAD[-1]:
                raise
            refused[name] = str(error)
        else:
            break
    if refused:
        reasons = "; ".join(f"{other}: {reason}" for other, reason in refused.items())
        warnings.warn(f"explained by {name}, as {reasons}", DefaultMethodWarning, stacklevel=3)
    return found, refused

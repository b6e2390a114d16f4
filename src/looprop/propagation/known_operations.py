"""Which operations there are: a rule for a name that no model can ever call would be ignored in silence."""

from collections.abc import Iterable

import torch
from torch.overrides import get_overridable_functions

from looprop.errors import PlanError, UnknownNameError
from looprop.intercept.operations import OWN_NAMESPACES, operation_name, plain_name
from looprop.propagation import operations


def check_operations(names: Iterable[str], where: str, ruled: Iterable[str]) -> None:
    """Raise for a name under which the engine never meets an operation.

    where: what the user wrote, for the message. ruled: the operations that have a rule.
    """
    unknown = set(names).difference(ruled)
    if unknown:
        known = _known().union(ruled)
        for name in sorted(unknown - known):
            plain, _ = plain_name(name)
            if plain in known:
                raise PlanError(f"{where}: unknown operation {name!r}; the engine calls it {plain!r}")
            raise PlanError(f"{where}: {UnknownNameError('operation', name, known)}")


def _known() -> frozenset[str]:
    """What the engine knows, what torch lets a mode see, and what libraries have registered with torch."""
    listed = {name for names in vars(operations).values() if isinstance(names, frozenset) for name in names}
    seen = {operation_name(function)[0] for functions in get_overridable_functions().values() for function in functions}
    registered = (name.partition(".")[0].partition("::") for name in torch._C._dispatch_get_all_op_names())
    named = {plain_name(name)[0] if home in OWN_NAMESPACES else f"{home}::{name}" for home, _, name in registered}
    return frozenset(listed | seen | named)

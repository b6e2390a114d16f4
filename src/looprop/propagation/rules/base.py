"""How a rule is entered: a function of one `Call`, under the names of its operations."""

from collections.abc import Callable

from looprop.errors import PlanError
from looprop.propagation.call import Rule
from looprop.propagation.known_operations import check_operations

ENTERED: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Makes a function the rule of these operations, in every plan; an operation has one rule."""

    def entered(function: Rule) -> Rule:
        taken = sorted(ENTERED.keys() & names)
        if taken:
            raise PlanError(f"operation {taken[0]!r} has a rule already: {ENTERED[taken[0]].__qualname__}")
        check_operations(names, f"@rule of {function.__qualname__}", ENTERED)
        ENTERED.update(dict.fromkeys(names, function))
        return function

    return entered

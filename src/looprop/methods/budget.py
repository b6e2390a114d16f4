"""How the remedy spends a budget of forward passes."""

from dataclasses import dataclass
from typing import Literal

# One forward and one backward pass: what even the cheapest estimate costs.
FIRST_PASS = 3.0


@dataclass(frozen=True)
class Share:
    """Rows per variant and estimates to be replaced by true values; `exact` is plain leave-one-out."""

    rows: int | Literal["all"] = 0
    refine: int = 0
    exact: bool = False


def share_budget(budget: float, features: int) -> Share:
    """The best use of a budget: passes, or below 1 a share of leave-one-out's cost (one pass per feature).

    Chosen on training sentences of SST-2 (docs/looprop-method.md): true values first, the read-out's above all.

    >>> share_budget(11, features=25), share_budget(0.5, features=6)
    (Share(rows=0, refine=8, exact=False), Share(rows=0, refine=0, exact=False))
    """
    passes = budget * features if budget < 1 else budget
    if passes >= features:
        return Share(exact=True)
    return Share(rows=0, refine=max(0, int(passes - FIRST_PASS)))

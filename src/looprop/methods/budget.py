"""How the remedy spends a budget of forward passes."""

from dataclasses import dataclass

# One forward and one backward pass: what even the cheapest estimate costs.
FIRST_PASS = 3.0
# So many true values come before any rows.
TRUE_FIRST = 3


@dataclass(frozen=True)
class Share:
    """Passes spent on exact rows and on true values; `exact` is plain leave-one-out."""

    rows: int = 0
    refine: int = 0
    exact: bool = False


def share_budget(budget: float, features: int) -> Share:
    """How a budget is spent: passes, or below 1 a share of leave-one-out's cost (one pass per feature).

    Chosen on training sentences of SST-2 (docs/looprop-method.md): the first few passes buy true values, the read-out's above all;
    of more, two thirds carry rows, which help wherever the first-order ranking is poor.

    >>> share_budget(5, features=25), share_budget(12, features=25), share_budget(0.5, features=6)
    (Share(rows=0, refine=2, exact=False), Share(rows=6, refine=3, exact=False), Share(rows=0, refine=0, exact=False))
    """
    passes = budget * features if budget < 1 else budget
    if passes >= features:
        return Share(exact=True)
    left = max(0, int(passes - FIRST_PASS))
    refine = left if left <= TRUE_FIRST else max(TRUE_FIRST, left // 3)
    return Share(rows=left - refine, refine=refine)

"""How the remedy spends a budget of forward passes."""

from dataclasses import dataclass

# One forward and one backward pass: what even the cheapest estimate costs.
FIRST_PASS = 3.0
# Up to so many passes are too few for rows.
TRUE_ONLY = 3


@dataclass(frozen=True)
class Share:
    """Passes spent on exact rows and on true values; `exact` is plain leave-one-out."""

    rows: int = 0
    refine: int = 0
    exact: bool = False


def share_budget(budget: float, features: int) -> Share:
    """How a budget is spent: passes, or below 1 a share of leave-one-out's cost (one pass per feature).

    Chosen on training sentences (docs/looprop-method.md): up to three passes buy true values, the read-out's above all.
    Of more, one does, and the others carry rows, which help also where the first-order ranking is too poor to say whose
    true value matters.

    >>> share_budget(5, features=25), share_budget(12, features=25), share_budget(0.5, features=6)
    (Share(rows=0, refine=2, exact=False), Share(rows=8, refine=1, exact=False), Share(rows=0, refine=0, exact=False))
    """
    passes = budget * features if budget < 1 else budget
    if passes >= features:
        return Share(exact=True)
    left = max(0, int(passes - FIRST_PASS))
    refine = left if left <= TRUE_ONLY else 1
    return Share(rows=left - refine, refine=refine)

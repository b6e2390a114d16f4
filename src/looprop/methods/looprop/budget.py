"""What a budget of forward passes comes to on an input. Where it is spent: spending.py."""

# One forward and one backward pass: what even the cheapest estimate costs.
FIRST_PASS = 3.0
# What `looprop` spends when nothing is said.
USUAL = 11.0


def passes_of(budget: float, features: int) -> float:
    """A budget in passes; below 1 it is a share of leave-one-out's cost, one pass per feature.

    >>> passes_of(11, features=40), passes_of(0.25, features=40)
    (11, 10.0)
    """
    return budget * features if budget < 1 else budget

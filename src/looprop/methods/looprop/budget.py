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


# Leave-one-out of so many positions in all (features times tokens) takes no longer than the usual budget, whose first
# pass goes through the engine: up to 18 tokens, each a feature, and up to 20 of a decoder, where variants share what
# stands before the removed token. Measured once, in CPU time (benchmarks/default_cost.py): a rule by the clock would
# give other numbers on other days.
EXACT_POSITIONS = 18 * 18
EXACT_POSITIONS_OF_A_DECODER = 20 * 20


def exact_is_as_quick(features: int, length: int, *, causal: bool) -> bool:
    """Is leave-one-out over so many features of so many tokens no dearer in time than the usual budget?

    >>> [exact_is_as_quick(n, n, causal=False) for n in (5, 18, 19)], exact_is_as_quick(20, 20, causal=True)
    ([True, True, False], True)
    """
    return features * length <= (EXACT_POSITIONS_OF_A_DECODER if causal else EXACT_POSITIONS)

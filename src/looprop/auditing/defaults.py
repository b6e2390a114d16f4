"""What an audit runs unless told otherwise, without importing torch."""

STAGES = 3
"""Weights are shuffled in the last third of the layers, in the last two thirds, and in all."""

CHECKED = 5
"""Checks that ask the methods again do so on this many of the inputs."""


def steps(rewrites: int, *, checks: bool = True) -> int:
    """How many steps an audit takes, for a progress bar: the model as it is, every rewrite, every check.

    >>> steps(2), steps(2, checks=False)
    (8, 3)
    """
    return 1 + rewrites + (STAGES + 2 if checks else 0)

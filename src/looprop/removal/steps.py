"""Many removals a few at a time, so that one can see how far they are and stop with what is known."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from looprop.removal.set_function import SetFunction

POSITIONS = 1024
"""A step holds variants of about so many positions together, which fill the matrix products of a CPU."""
FEWEST = 4


def in_steps(value: SetFunction, keep: NDArray[np.bool_], advance: Callable[[int], None]) -> NDArray[np.bool_]:
    """Compute rows of kept features (N, F), saying after each step how many there were; which of them are known (N,).

    A KeyboardInterrupt ends it: what was computed before stays known to the subject.
    """
    count = max(FEWEST, POSITIONS // max(1, len(value.subject.encoded)))
    try:
        for start in range(0, len(keep), count):
            part = keep[start : start + count]
            value(part)
            advance(len(part))
    except KeyboardInterrupt:
        pass
    return value.is_known(keep)

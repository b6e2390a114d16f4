"""Many removals a few at a time, so that one can see how far they are and stop with what is known."""

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from looprop.removal.value import SetFunction

SHORT = 0.5
"""Seconds: after a step that took less, the next one is twice as large."""


def in_steps(
    value: SetFunction,
    keep: NDArray[np.bool_],
    advance: Callable[[int], None],
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> NDArray[np.bool_]:
    """Compute rows of kept features (N, F), saying after each step how many there were; which of them are known (N,).

    A KeyboardInterrupt ends it: what was computed before stays known to the subject.
    """
    start, count = 0, 1
    try:
        while start < len(keep):
            before = clock()
            part = keep[start : start + count]
            value(part)
            start += len(part)
            advance(len(part))
            count = 2 * count if clock() - before < SHORT else count
    except KeyboardInterrupt:
        pass
    return value.is_known(keep)

"""Lasso: least squares whose coefficients are shrunk towards zero until most of them are zero.

    minimise over b, c   1 / (2 N) |y - X b - c|^2 + alpha |b|_1                                (Tibshirani 1996)

by going round the coefficients one at a time: each has a closed form while the others stand still. At the minimum every
column's mean product with what is left over is at most alpha, and is alpha times the sign of a coefficient that is not
zero.
"""

import numpy as np

from looprop.errors import InputError
from looprop.games.values import Floats

# A round that moves no prediction by more than this share of the spread of y is the last.
STILL = 1e-10
ROUNDS = 100_000


def lasso(design: Floats, target: Floats, alpha: float) -> tuple[Floats, float]:
    """Coefficients (n,) and intercept of the columns of a design (N, n) for a target (N,).

    >>> lasso(np.array([[0.0], [2.0]]), np.array([0.0, 2.0]), 0.5)[0].tolist()
    [0.5]
    """
    if alpha < 0:
        raise InputError(f"alpha must be at least 0, got {alpha!r}")
    centre, level = design.mean(0), float(target.mean())
    columns, left = design - centre, target - level  # left: what is not explained yet
    lengths = (columns**2).mean(0)
    still = STILL * float(np.sqrt((left**2).mean()))
    coefficients = np.zeros(design.shape[1])
    for _ in range(ROUNDS):
        moved = 0.0
        for j in np.flatnonzero(lengths > 0):
            before = coefficients[j]
            slope = columns[:, j] @ left / len(left) + lengths[j] * before
            coefficients[j] = np.sign(slope) * max(abs(slope) - alpha, 0.0) / lengths[j]
            left = left - columns[:, j] * (coefficients[j] - before)
            moved = max(moved, abs(coefficients[j] - before) * float(np.sqrt(lengths[j])))
        if moved <= still:
            break
    return coefficients, level - float(centre @ coefficients)

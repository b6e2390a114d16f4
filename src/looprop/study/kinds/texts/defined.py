"""Means over examples of which some have no value."""

import numpy as np
from numpy.typing import NDArray


def defined_mean(values: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """The mean of what is defined; NaN where nothing is.

    >>> defined_mean(np.array([[1.0, np.nan], [3.0, np.nan]]), axis=0)
    array([ 2., nan])
    """
    defined = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        means: NDArray[np.float64] = np.where(defined, values, 0.0).sum(axis) / defined.sum(axis)
    return means

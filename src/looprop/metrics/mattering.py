"""Does any feature matter? Where a reference gives every feature next to no effect, r to it is made of noise.

    largest share = max over features i of |effect_i| / |f(x) - f(nothing)|

f(nothing) is the value of what always stays (special tokens). Leave-one-out can be small everywhere although the text
decides the answer: where it says the same in many ways, each of them can go.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from looprop.errors import InputError
from looprop.metrics.base import finite_vector

MATTERS = 0.05
"""A feature matters if its effect is at least this share of f(x) - f(nothing)."""

ROUNDING = 1e-5  # values in single precision are known up to this share of their size


def largest_share(effects: ArrayLike, *, whole: float, nothing: float, special: ArrayLike | None = None) -> float:
    """The largest effect of one feature as a share of |f(x) - f(nothing)|; features where `special` is True, which the
    tokenizer added, have no part in it.

    effects: (F,) of a reference, leave-one-out or Shapley values. whole: f(x). nothing: f of what always stays.
    0.0 where no effect is larger than rounding, inf where there are effects but f(x) = f(nothing), NaN where there is
    no feature.

    >>> largest_share([0.5, -1.0, 9.0], whole=3.0, nothing=-1.0, special=[False, False, True])
    0.25
    """
    values = finite_vector("effects", effects)
    flags = np.zeros(len(values), dtype=bool) if special is None else np.asarray(special, dtype=bool)
    if flags.shape != values.shape:
        raise InputError(f"special must have one entry per feature: {len(values)} features, got shape {flags.shape}")
    if not (math.isfinite(whole) and math.isfinite(nothing)):
        raise InputError(f"f(x) and f(nothing) must be finite, got {whole} and {nothing}")
    if flags.all():
        return math.nan
    largest = float(np.abs(values[~flags]).max())
    rounding = ROUNDING * max(abs(whole), abs(nothing))
    if largest <= rounding:
        return 0.0
    gap = abs(whole - nothing)
    return math.inf if gap <= rounding else largest / gap


def matters(
    effects: ArrayLike, *, whole: float, nothing: float, special: ArrayLike | None = None, threshold: float = MATTERS
) -> bool:
    """Does any feature matter to this reference: is the largest share at least `threshold`?

    >>> matters([0.05, -0.1, 0.02], whole=3.0, nothing=-1.0)
    False
    >>> matters([0.05, -1.0, 0.02], whole=3.0, nothing=-1.0)
    True
    """
    if not threshold >= 0:
        raise InputError(f"threshold must be a number >= 0, got {threshold!r}")
    share = largest_share(effects, whole=whole, nothing=nothing, special=special)
    return share > 0 and share >= threshold

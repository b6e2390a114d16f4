"""How far an explanation can be trusted, as it was found out: r to leave-one-out, from true values of some features."""

import math
from dataclasses import dataclass

from looprop.display.data import two_decimals
from looprop.errors import InputError
from looprop.result.codec import Count


@dataclass(frozen=True)
class Check:
    """An estimate of r to leave-one-out with its interval [low, high], and the true values that it rests on.

    places: the features whose leave-one-out is known, in order of position; values: theirs. bought: how many of them
    were computed for the check, the others by the method. cost: of the check, in forward passes. removal: how features
    were removed. exact: all are known, so that r is no estimate (docs/trust.md). matters: whether any true value is at
    least 5 % of what all features do together; None where that is not known. itself: scores are leave-one-out itself.
    """

    r: float
    low: float
    high: float
    confidence: float
    places: tuple[Count, ...]
    values: tuple[float, ...]
    bought: Count
    cost: float
    removal: str
    exact: bool
    matters: bool | None = None
    itself: bool = False

    def __post_init__(self) -> None:
        if not len(set(self.places)) == len(self.places) == len(self.values):
            raise InputError(f"a check has one value per place, got {len(self.values)} for {list(self.places)}")

    @property
    def known(self) -> dict[int, float]:
        """Leave-one-out by feature."""
        return dict(zip(self.places, self.values, strict=True))

    @property
    def verdict(self) -> str:
        """What there is to say, in the words that follow "r to leave-one-out"."""
        if not self.places:
            return "undefined: fewer than 3 features, or scores that are not numbers"
        count, (r, low, high) = f"{len(self.places)} true values", map(two_decimals, (self.r, self.low, self.high))
        nothing = f"nothing matters by itself (of {count} none reaches 5 % of what all features do together)"
        if self.itself:
            return "exact: these are its values" + (f"; but {nothing}" if self.matters is False else "")
        if self.matters is False:
            return f"not told: {nothing}"
        if math.isnan(self.r):
            return f"undefined ({count})"
        return f"{r}, exact (all {count})" if self.exact else f"about {r} ({low} to {high}, {count})"

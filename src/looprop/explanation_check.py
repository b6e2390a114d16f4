"""How far an explanation can be trusted, as it was found out: r to leave-one-out, from true values of some features."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from looprop.display.data import two_decimals
from looprop.errors import DataError


@dataclass(frozen=True)
class Check:
    """An estimate of r to leave-one-out with its interval [low, high], and the true values that it rests on.

    places: the features whose leave-one-out is known, in order of position; values: theirs. bought: how many of them
    were computed for the check; the method had computed the others. cost: of the check, in forward passes.
    removal: how features were removed. exact: all are known, so that r is no estimate (docs/trust.md).
    matters: whether any true value is at least 5 % of what all features do together; None where that is not known.
    itself: the scores are leave-one-out itself.
    """

    r: float
    low: float
    high: float
    confidence: float
    places: tuple[int, ...]
    values: tuple[float, ...]
    bought: int
    cost: float
    removal: str
    exact: bool
    matters: bool | None = None
    itself: bool = False

    @property
    def known(self) -> dict[int, float]:
        """Leave-one-out by feature."""
        return dict(zip(self.places, self.values, strict=True))

    @property
    def verdict(self) -> str:
        """What there is to say, in the words that follow "r to leave-one-out"."""
        if not self.places:
            return "undefined: fewer than 3 features, or scores that are not numbers"
        count = f"{len(self.places)} true values"
        nothing = f"nothing matters by itself (of {count} none reaches 5 % of what all features do together)"
        if self.itself:
            return "exact: these are its values" + (f"; but {nothing}" if self.matters is False else "")
        if self.matters is False:
            return f"not told: {nothing}"
        if math.isnan(self.r):
            return f"undefined ({count})"
        if self.exact:
            return f"{two_decimals(self.r)}, exact (all {count})"
        return f"about {two_decimals(self.r)} ({two_decimals(self.low)} to {two_decimals(self.high)}, {count})"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_dict(cls, data: Any, features: int) -> "Check":
        """The inverse of `to_dict`, for an explanation of so many features; anything else raises a DataError."""
        if not isinstance(data, Mapping):
            raise DataError(f"the check of an explanation must be an object, got {type(data).__name__}")
        required = [field.name for field in fields(cls) if field.name not in {"matters", "itself"}]
        known = {field.name for field in fields(cls)}
        if unknown := sorted(map(str, set(data) - known)):
            raise DataError(f"a check has no {', '.join(map(repr, unknown))}; known: {', '.join(sorted(known))}")
        if missing := [name for name in required if name not in data]:
            raise DataError(f"the check lacks {', '.join(map(repr, missing))}")
        wrong = [name for name, value in data.items() if not _holds(name, value, features)]
        if wrong:
            raise DataError(f"the check is not in the form of its schema: {wrong[0]} is {repr(data[wrong[0]])[:60]}")
        if len(data["places"]) != len(data["values"]):
            raise DataError(f"a check has one value per place, got {len(data['values'])} for {len(data['places'])}")
        numbers = {name: _float(data[name]) for name in ("r", "low", "high", "confidence", "cost")}
        lists = {"places": tuple(data["places"]), "values": tuple(map(_float, data["values"]))}
        return cls(**{**data, **numbers, **lists})


def _number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300)


def _holds(name: str, value: Any, features: int) -> bool:
    """Is a field of a check in its form?"""
    if name in ("exact", "itself"):
        return isinstance(value, bool)
    if name == "matters":
        return value is None or isinstance(value, bool)
    if name == "removal":
        return isinstance(value, str)
    if name == "bought":
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if name == "places":
        whole = isinstance(value, list | tuple) and all(type(i) is int and 0 <= i < features for i in value)
        return whole and len(set(value)) == len(value)
    if name == "values":
        return isinstance(value, list | tuple) and all(map(_number, value))
    return _number(value)


def _float(value: float | None) -> float:
    return math.nan if value is None else float(value)

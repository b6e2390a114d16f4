"""Explain a question by several methods, as a job of many steps: the cheapest first, leave-one-out a few at a time."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from looprop.explained import explain_subjects
from looprop.methods.base import Method
from looprop.removal.value import SetFunction
from looprop.serving.asked import Asked
from looprop.serving.worker import Level

LOO, SHAPLEY = "loo", "shapley"
REFERENCES = (LOO, SHAPLEY)
"""The methods that others are compared with."""
TOGETHER = 8
"""So many features of leave-one-out are computed before others have their turn."""


@dataclass(eq=False)
class Explaining:
    """A job: every method on one question, in order of cost.

    rows: how many inputs were run through models so far, by level.
    """

    asked: Asked
    methods: Mapping[str, Method]
    rows: Mapping[Level, int]
    _now: tuple[str, int] | None = field(default=None, init=False)
    _told: int = field(default=0, init=False)

    @property
    def level(self) -> Level:
        """Shapley values take so long that everything else goes before them."""
        return Level.REFERENCE if SHAPLEY in self.methods else Level.METHODS

    @property
    def order(self) -> list[str]:
        """The methods, the cheapest first; those of one cost as they were asked for."""
        return sorted(self.methods, key=lambda name: self.methods[name].passes(self.asked.subject))

    def steps(self) -> Iterator[dict[str, Any]]:
        """The job itself."""
        for name in self.order:
            if name == LOO:
                yield from self._leave_one_out()
            else:
                yield self._found(name)

    def progress(self) -> dict[str, Any] | None:
        """How many variants the current method has run, of about how many at most; None for nothing new."""
        now = self._now
        if now is None:
            return None
        name, before = now
        computed, most = self.rows[self.level] - before, self.methods[name].passes(self.asked.subject)
        if computed == self._told or not math.isfinite(most):
            return None
        self._told = computed
        return {"method": name, "computed": computed, "most": max(most, computed)}

    def _found(self, name: str) -> dict[str, Any]:
        self._now = (name, self.rows[self.level])
        try:
            (found,) = explain_subjects([self.asked.subject.alone()], self.methods[name])
        except Exception as error:  # one method that does not fit a model says so, and the others go on
            return {"method": name, "error": " ".join(str(error).split())[:500]}
        finally:
            self._now = None
        return {
            "method": name,
            "scores": [float(score) if math.isfinite(score) else None for score in found.scores],
            "cost": float(found.cost),
            "seconds": float(found.seconds),
            "unsigned": self.methods[name].kind == "weight",
            "error_of_sampling": found.details.get("largest_error"),
        }

    def _leave_one_out(self) -> Iterator[dict[str, Any]]:
        value = SetFunction(self.asked.subject)  # its own: a strike-out may come in between
        count = self.asked.count
        for start in range(0, count, TOGETHER):
            which = list(range(start, min(start + TOGETHER, count)))
            yield {"method": LOO, "from": start, "scores": self.asked.effects(which, value), "of": count}

"""Shapley values: a feature's marginal contribution, averaged over all orders in which features can come in.

phi_i = sum over S without i of |S|! (n - |S| - 1)! / n! (f(S + i) - f(S))
"""

from functools import partial
from typing import Any, Literal, get_args

from looprop.errors import InputError
from looprop.games.sampling import fewest_evaluations, shapley_by_sets
from looprop.games.values import Floats, all_sets, exact_shapley, sampled_shapley
from looprop.methods.base import Attribution
from looprop.methods.parts.players import GameMethod, Keep, Players, whole_number
from looprop.models.adapter import Removal
from looprop.models.subject import Subject
from looprop.naming import one_of

By = Literal["sets", "orders"]


class Shapley(GameMethod):
    """Exact over all sets where those are no more than the samples would ask for (up to 12 features by default),
    sampled above.

    samples: as many evaluations as so many orders ask for, at the most. tolerance: sampling ends when the standard
        error of every score is at most this share of the largest score. The errors are part of the result (`details`).
    by: what is sampled: "sets" with their complements, what a smooth game says of them taken off (`games/sampling.py`),
        or "orders" in antithetic pairs, which need several times as many evaluations for the same error.
    """

    name = "shapley"
    title = "Shapley value"
    summary = "a feature's share of the answer: its marginal contribution averaged over all orders"
    cost = "at most samples * (F - S)"
    kind = "share"
    coarse = "shapley[samples=8]"
    demo = "shapley[samples=16]"

    def __init__(
        self,
        *,
        samples: int = 400,
        tolerance: float = 0.02,
        by: By = "sets",
        keep: Keep = "special",
        removal: Removal | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(keep=keep, removal=removal)
        self.samples, self.seed = whole_number("samples", samples, 2), whole_number("seed", seed, 0)
        if not isinstance(tolerance, int | float) or not tolerance >= 0:
            raise InputError(f"tolerance must be a number >= 0, got {tolerance!r}")
        self.tolerance, self.by = tolerance, one_of("way to sample", by, get_args(By))

    def passes(self, subject: Subject) -> float:
        count = len(subject.features) - sum(subject.special)
        return float(2**count if 2**count <= max(2, self.samples * count) else self.samples * count)

    def play(self, subject: Subject, players: Players) -> Attribution:
        before = players.value.count.computed
        count = len(players)
        scores, details = self._exact(players) if 2**count <= max(2, self.samples * count) else self._sampled(players)
        cost = float(players.value.count.computed - before)
        return Attribution(players.spread(scores), cost=cost, details={**players.about, **details})

    def for_each(self, subject: Subject) -> "tuple[Shapley, float]":
        """By orders, in which shares of a sum are sums of shares, and by as many as the whole answer takes."""
        of_orders = partial(Shapley, by="orders", keep=self.keep, removal=self.removal, seed=self.seed)
        orders = of_orders(samples=self.samples, tolerance=self.tolerance)
        found = orders.attribute([subject])[0]
        if found.details["exact"]:
            return orders, found.cost
        return of_orders(samples=found.details["orders"], tolerance=0.0), found.cost

    def _exact(self, players: Players) -> tuple[Floats, dict[str, Any]]:
        return exact_shapley(players(all_sets(len(players)))), {"exact": True, "largest_error": 0.0}

    def _sampled(self, players: Players) -> tuple[Floats, dict[str, Any]]:
        count, most = len(players), self.samples * len(players)
        by: By = self.by if most >= fewest_evaluations(count) else "orders"
        if by == "sets":
            found = shapley_by_sets(players, count, tolerance=self.tolerance, most=most, seed=self.seed)
        else:
            found = sampled_shapley(players, count, tolerance=self.tolerance, most=self.samples, seed=self.seed)
        errors = players.spread(found.errors).tolist()
        more = {"exact": False, "by": by, "evaluations": found.evaluations, "errors": errors}
        more |= {"orders": found.orders, "largest_error": float(found.errors.max())}
        return found.shares, more

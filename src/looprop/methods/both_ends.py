"""Both ends: the mean of a feature's last marginal contribution (leave-one-out) and its first (alone).

B_i = ((f(N) - f(N - i)) + (f({i}) - f({}))) / 2: the Shapley value wherever no more than two features interact.
"""

from collections.abc import Sequence
from typing import Any, Literal, get_args

from looprop.errors import InputError, UnknownNameError
from looprop.games.values import first_marginals, last_marginals
from looprop.methods.base import Attribution, Method
from looprop.methods.looprop.method import LooProp
from looprop.methods.players import Keep, check_game_options, players_of
from looprop.models.adapter import Removal
from looprop.models.subject import Subject

Last = Literal["exact", "looprop"]


class BothEnds(Method):
    """The mean of leave-one-out and alone.

    loo: leave-one-out itself, or its estimate by `looprop`. budget: what that estimate may spend, in forward passes.
    """

    name = "both-ends"
    title = "Both ends"
    summary = "mean of leave-one-out and alone: the Shapley value where at most pairs interact"
    cost = "F - S + ((F - S) * (1 + S) + S) / T"
    shares_removals = True
    kind = "share"
    order = 16
    text_options = frozenset({"keep"})
    limits = """
        *Claims:* a feature's share of the answer, from the two ends of all orders in which features can come in. Exact
        for every function of at most pairwise interactions.

        Do not trust it where three and more features only work together: what happens in the middle of an order is not
        looked at. `shapley` looks everywhere.
        """

    def __init__(
        self, *, loo: Last = "exact", budget: float = 8, keep: Keep = "special", removal: Removal | None = None
    ) -> None:
        keep = check_game_options(keep, removal)
        if loo not in get_args(Last):
            raise UnknownNameError("leave-one-out", str(loo), get_args(Last))
        if loo == "looprop" and removal not in (None, "attention-mask"):
            raise InputError(f"looprop estimates removal by attention mask, got removal={removal!r}: use loo='exact'")
        LooProp(budget=budget)  # says what a budget may be
        self.loo, self.budget, self.keep, self.removal = loo, budget, keep, removal

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        """One mean per feature."""
        return [self._attribute(subject) for subject in subjects]

    def _attribute(self, subject: Subject) -> Attribution:
        players = players_of(subject, keep=self.keep, removal=self.removal)
        count = len(players)
        if self.loo == "looprop":
            (found,) = LooProp(budget=self.budget).attribute([subject])
            last, cost, details = found.scores[players.players], found.cost, {"loo": dict(found.details)}
        else:
            last, cost, details = last_marginals(players, count), float(count), dict[str, Any]()
        scores = players.spread((first_marginals(players, count) + last) / 2)
        return Attribution(scores, cost=cost + players.alone_cost, details={**players.about, **details})

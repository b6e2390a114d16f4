"""Both ends: the mean of a feature's last marginal contribution (leave-one-out) and its first (alone).

B_i = ((f(N) - f(N - i)) + (f({i}) - f({}))) / 2: the Shapley value wherever no more than two features interact.
"""

from typing import Any, Literal, get_args

from looprop.errors import InputError
from looprop.games.values import first_marginals, last_marginals
from looprop.methods.alone import Alone
from looprop.methods.base import Attribution
from looprop.methods.looprop.method import LooProp
from looprop.methods.parts.players import GameMethod, Keep, Players
from looprop.models.adapter import Removal
from looprop.models.subject import Subject
from looprop.naming import one_of

Last = Literal["exact", "looprop"]


class BothEnds(GameMethod):
    """The mean of leave-one-out and alone.

    loo: leave-one-out itself, or its estimate by `looprop`. budget: what that estimate may spend, in forward passes.
    """

    name = "both-ends"
    title = "Both ends"
    summary = "mean of leave-one-out and alone: the Shapley value where at most pairs interact"
    cost = "F - S + ((F - S) * (1 + S) + S) / T"
    kind = "share"

    def __init__(
        self, *, loo: Last = "exact", budget: float = 8, keep: Keep = "special", removal: Removal | None = None
    ) -> None:
        super().__init__(keep=keep, removal=removal)
        if one_of("leave-one-out", loo, get_args(Last)) == "looprop" and removal not in (None, "attention-mask"):
            raise InputError(f"looprop estimates removal by attention mask, got removal={removal!r}: use loo='exact'")
        LooProp(budget=budget)  # says what a budget may be
        self.loo, self.budget = loo, budget

    def passes(self, subject: Subject) -> float:
        return len(subject.features) - sum(subject.special) + Alone().passes(subject)

    def play(self, subject: Subject, players: Players) -> Attribution:
        count = len(players)
        if self.loo == "looprop":
            (found,) = LooProp(budget=self.budget).attribute([subject])
            last, cost, details = found.scores[players.players], found.cost, {"loo": dict(found.details)}
        else:
            last, cost, details = last_marginals(players, count), float(count), dict[str, Any]()
        scores = players.spread((first_marginals(players, count) + last) / 2)
        return Attribution(scores, cost=cost + players.alone_cost, details={**players.about, **details})

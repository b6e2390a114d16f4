"""Both ends: the mean of a feature's last marginal contribution (leave-one-out) and its first (alone).

B_i = ((f(N) - f(N - i)) + (f({i}) - f({}))) / 2: the Shapley value wherever no more than two features interact.
"""

from collections.abc import Sequence

from looprop.games.values import first_marginals, last_marginals
from looprop.methods.base import Attribution, Method
from looprop.methods.players import Keep, check_game_options, players_of
from looprop.models.adapter import Removal
from looprop.models.subject import Subject


class BothEnds(Method):
    """The mean of leave-one-out and alone."""

    name = "both-ends"
    title = "Both ends"
    summary = "mean of leave-one-out and alone: the Shapley value where at most pairs interact"
    cost = "F - S + ((F - S) * (1 + S) + S) / T"
    kind = "share"
    order = 16
    limits = """
        *Claims:* a feature's share of the answer, from the two ends of all orders in which features can come in. Exact
        for every function of at most pairwise interactions.

        Do not trust it where three and more features only work together: what happens in the middle of an order is not
        looked at. `shapley` looks everywhere.
        """

    def __init__(self, *, keep: Keep = "special", removal: Removal | None = None) -> None:
        check_game_options(keep, removal)
        self.keep, self.removal = keep, removal

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        """One mean per feature."""
        return [self._attribute(subject) for subject in subjects]

    def _attribute(self, subject: Subject) -> Attribution:
        players = players_of(subject, keep=self.keep, removal=self.removal)
        count = len(players)
        scores = players.spread((first_marginals(players, count) + last_marginals(players, count)) / 2)
        return Attribution(scores, cost=count + players.alone_cost, details=players.about)

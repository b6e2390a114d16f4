"""Alone: what a feature says when nothing else is there.  A_i = f({i}) - f({})"""

from collections.abc import Sequence

from looprop.games.values import first_marginals
from looprop.methods.base import Attribution, Method
from looprop.methods.players import Keep, check_game_options, players_of
from looprop.models.adapter import Removal
from looprop.models.subject import Subject


class Alone(Method):
    """A feature's first marginal contribution: beside what always stays, it comes in first."""

    name = "alone"
    title = "Alone"
    summary = "what a feature says when nothing else is there but what always stays"
    cost = "((F - S) * (1 + S) + S) / T"
    shares_removals = True
    kind = "effect"
    order = 14
    text_options = frozenset({"keep"})
    limits = """
        *Claims:* what this feature would do to the target if it came in first. It is the other end of leave-one-out,
        and does not overlook words that say the same thing twice.

        Do not trust it

        - where features only work together: "not" alone says little, and "bad" alone the opposite of "not bad";
        - as a statement about natural inputs: one token between [CLS] and [SEP] is an input that the model may never
          have seen.
        """

    def __init__(self, *, keep: Keep = "special", removal: Removal | None = None) -> None:
        keep = check_game_options(keep, removal)
        self.keep, self.removal = keep, removal

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        """f({i}) - f({}) for every feature i."""
        return [self._attribute(subject) for subject in subjects]

    def _attribute(self, subject: Subject) -> Attribution:
        players = players_of(subject, keep=self.keep, removal=self.removal)
        scores = players.spread(first_marginals(players, len(players)))
        return Attribution(scores, cost=players.alone_cost, details=players.about)

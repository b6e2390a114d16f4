"""Alone: what a feature says when nothing else is there.  A_i = f({i}) - f({})"""

from looprop.games.values import first_marginals
from looprop.methods.base import Attribution
from looprop.methods.parts.players import GameMethod, Players
from looprop.models.subject import Subject


class Alone(GameMethod):
    """A feature's first marginal contribution: beside what always stays, it comes in first."""

    name = "alone"
    title = "Alone"
    summary = "what a feature says when nothing else is there but what always stays"
    cost = "((F - S) * (1 + S) + S) / T"
    kind = "effect"

    def passes(self, subject: Subject) -> float:
        special, count = sum(subject.special), len(subject.features)
        return ((count - special) * (1 + special) + special) / subject.length

    def play(self, subject: Subject, players: Players) -> Attribution:
        scores = players.spread(first_marginals(players, len(players)))
        return Attribution(scores, cost=players.alone_cost, details=players.about)

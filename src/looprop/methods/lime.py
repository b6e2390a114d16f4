"""LIME (Ribeiro et al. 2016): the additive model that fits the values of sampled sets best, those near the whole
weighing most.
"""

from collections.abc import Sequence

from looprop.errors import InputError
from looprop.games.regression import lime
from looprop.methods.base import Attribution, Method
from looprop.methods.players import Keep, check_game_options, players_of
from looprop.models.adapter import Removal
from looprop.models.subject import Subject


class Lime(Method):
    """Weighted ridge regression on sampled sets. samples: evaluations, the whole included."""

    name = "lime"
    title = "LIME"
    summary = "additive model fitted to sampled sets, those near the whole weighing most"
    cost = "samples"
    shares_removals = True
    kind = "share"
    order = 66
    text_options = frozenset({"keep"})
    limits = """
        *Claims:* the slope of the target around the whole input. Do not trust it at few samples, and note that its
        kernel width and ridge are choices that move the scores.
        """

    def __init__(
        self, *, samples: int = 128, keep: Keep = "special", removal: Removal | None = None, seed: int = 0
    ) -> None:
        keep = check_game_options(keep, removal)
        if type(samples) is not int or samples < 3:
            raise InputError(f"samples must be an integer >= 3, got {samples!r}")
        if type(seed) is not int or seed < 0:
            raise InputError(f"seed must be an integer >= 0, got {seed!r}")
        self.samples, self.keep, self.removal, self.seed = samples, keep, removal, seed

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        """One coefficient per feature."""
        return [self._attribute(subject) for subject in subjects]

    def _attribute(self, subject: Subject) -> Attribution:
        players = players_of(subject, keep=self.keep, removal=self.removal)
        scores = lime(players, len(players), samples=self.samples, seed=self.seed)
        return Attribution(players.spread(scores), cost=float(self.samples), details=players.about)

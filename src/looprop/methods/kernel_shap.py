"""KernelSHAP (Lundberg & Lee 2017): the additive model that fits the values of sampled sets best, by the kernel whose
solution over all sets is the Shapley value.
"""

from collections.abc import Sequence

from looprop.errors import InputError
from looprop.games.regression import kernel_shap
from looprop.methods.base import Attribution, Method
from looprop.methods.players import Keep, check_game_options, players_of
from looprop.models.adapter import Removal
from looprop.models.subject import Subject


class KernelShap(Method):
    """Weighted least squares on sampled sets. samples: evaluations, with nothing and with everything included."""

    name = "kernel-shap"
    title = "KernelSHAP"
    summary = "additive model fitted to sampled sets by the Shapley kernel"
    cost = "samples"
    shares_removals = True
    kind = "share"
    order = 64
    text_options = frozenset({"keep"})
    limits = """
        *Claims:* an estimate of the Shapley value. Do not trust it at few samples: below several times as many as
        features the fit has to guess, and says nothing about how much.
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
        scores = kernel_shap(players, len(players), samples=self.samples, seed=self.seed)
        return Attribution(players.spread(scores), cost=float(self.samples), details=players.about)

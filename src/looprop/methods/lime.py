"""LIME (Ribeiro et al. 2016): the additive model that fits the values of sampled sets best, those near the whole
weighing most.
"""

import numpy as np
from numpy.typing import NDArray

from looprop.games.sampling import lime
from looprop.methods.parts.players import Players, SampledGame


class Lime(SampledGame):
    """Weighted ridge regression on sampled sets. samples: evaluations, the whole included."""

    name = "lime"
    title = "LIME"
    summary = "additive model fitted to sampled sets, those near the whole weighing most"
    cost = "samples"
    kind = "share"

    def fit(self, players: Players) -> NDArray[np.float64]:
        return lime(players, len(players), samples=self.samples, seed=self.seed)

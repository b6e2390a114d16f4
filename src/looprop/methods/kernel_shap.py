"""KernelSHAP (Lundberg & Lee 2017): the additive model that fits the values of sampled sets best, by the kernel whose
solution over all sets is the Shapley value.
"""

import numpy as np
from numpy.typing import NDArray

from looprop.games.sampling import kernel_shap
from looprop.methods.parts.players import Players, SampledGame


class KernelShap(SampledGame):
    """Weighted least squares on sampled sets. samples: evaluations, with nothing and with everything included."""

    name = "kernel-shap"
    title = "KernelSHAP"
    summary = "additive model fitted to sampled sets by the Shapley kernel"
    cost = "samples"
    kind = "share"

    def fit(self, players: Players) -> NDArray[np.float64]:
        return kernel_shap(players, len(players), samples=self.samples, seed=self.seed)

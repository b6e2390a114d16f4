"""LIME (Ribeiro et al. 2016): the additive model that fits sampled sets best, those near the whole weighing most."""

from looprop.games.sampling import lime
from looprop.methods.parts.players import SampledGame


class Lime(SampledGame):
    """Weighted ridge regression on sampled sets. samples: evaluations, the whole included."""

    name = "lime"
    title = "LIME"
    summary = "additive model fitted to sampled sets, those near the whole weighing most"
    cost = "samples"
    kind = "share"
    fit = staticmethod(lime)

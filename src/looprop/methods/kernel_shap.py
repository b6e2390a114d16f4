"""KernelSHAP (Lundberg & Lee 2017): the additive model that fits sampled sets best, by the Shapley kernel."""

from looprop.games.sampling import kernel_shap
from looprop.methods.parts.players import SampledGame


class KernelShap(SampledGame):
    """Weighted least squares on sampled sets. samples: evaluations, with nothing and with everything included."""

    name = "kernel-shap"
    title = "KernelSHAP"
    summary = "additive model fitted to sampled sets by the Shapley kernel"
    cost = "samples"
    kind = "share"
    fit = staticmethod(kernel_shap)

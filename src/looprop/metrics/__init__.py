"""How faithful scores are: pure functions, and metrics by name that know their direction and version."""

from importlib import import_module
from pkgutil import iter_modules

from looprop.metrics.aopc_limits import area_over_curve, normalised_aopc
from looprop.metrics.base import Case, Metric, get_metric, metric_names, register
from looprop.metrics.correlation import (
    PROTOCOLS,
    REFERENCES,
    Correlation,
    Protocol,
    Reference,
    correlate,
    kendall,
    pearson,
    sign_agreement,
    spearman,
)
from looprop.metrics.curves import CurveSummary, summarise
from looprop.metrics.mattering import MATTERS, largest_share, matters
from looprop.metrics.overlap import top_overlap
from looprop.metrics.removal_states import States, keep_matrix, removal_order, required_states
from looprop.metrics.statistics import Comparison, Estimate, PairedTest, bootstrap_mean, compare_all, holm, paired_test
from looprop.metrics.subset_removal import infidelity, removal_sets, sensitivity_n
from looprop.metrics.trust import Trust, estimate_r, places_to_check
from looprop.metrics.yardsticks import YARDSTICKS, yardstick

__all__ = [
    "MATTERS", "PROTOCOLS", "REFERENCES", "YARDSTICKS", "Case", "Comparison", "Correlation", "CurveSummary", "Estimate",
    "Metric", "PairedTest", "Protocol", "Reference", "States", "Trust", "area_over_curve", "bootstrap_mean",
    "compare_all", "correlate", "estimate_r", "get_metric", "holm", "infidelity", "keep_matrix", "kendall",
    "largest_share", "matters", "metric_names", "normalised_aopc", "paired_test", "pearson", "places_to_check",
    "register", "removal_order", "removal_sets", "required_states", "sensitivity_n", "sign_agreement", "spearman",
    "summarise", "top_overlap", "yardstick",
]  # fmt: skip

# A file registers its metrics where it is imported.
for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")

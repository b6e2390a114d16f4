"""How faithful scores are: pure functions, and metrics by name that know their direction and version."""

from looprop.metrics import agreement, perturbation
from looprop.metrics.base import Case, Metric, get_metric, metric_names, register
from looprop.metrics.correlation import Correlation, correlate, kendall, pearson, sign_agreement, spearman
from looprop.metrics.curves import CurveSummary, keep_matrix, removal_order, summarise
from looprop.metrics.removal_states import States, required_states
from looprop.metrics.statistics import Comparison, Estimate, PairedTest, bootstrap_mean, compare_all, holm, paired_test
from looprop.metrics.yardsticks import YARDSTICKS, yardstick

__all__ = [
    "YARDSTICKS",
    "Case",
    "Comparison",
    "Correlation",
    "CurveSummary",
    "Estimate",
    "Metric",
    "PairedTest",
    "States",
    "bootstrap_mean",
    "compare_all",
    "correlate",
    "get_metric",
    "holm",
    "keep_matrix",
    "kendall",
    "metric_names",
    "paired_test",
    "pearson",
    "register",
    "removal_order",
    "required_states",
    "sign_agreement",
    "spearman",
    "summarise",
    "yardstick",
]

for _metric in (*agreement.METRICS, *perturbation.METRICS):
    register(_metric)

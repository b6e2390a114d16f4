"""The paper's claims as tests on our numbers, whichever way they come out, and the numbers that it printed.

Which claims there are, the kinds know. Printed numbers are for display beside ours: no result is computed from them.
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from looprop.metrics import Estimate, bootstrap_mean, paired_test

ALPHA = 0.05
"""What is less likely than this by chance decides a claim."""
HARDLY = 0.1
"""An |r| below it is hardly a correlation."""


@dataclass(frozen=True)
class JudgedClaim:
    """A claim, what the paper prints for it, our numbers, and whether it holds here (None: they do not decide it)."""

    claim: str
    paper: str
    ours: str
    holds: bool | None

    @property
    def verdict(self) -> str:
        """holds, does not hold, undecided"""
        return "undecided" if self.holds is None else "holds" if self.holds else "does not hold"


def with_interval(e: Estimate) -> str:
    """A mean and its interval, with their signs."""
    return f"{e.mean:+.3f} [{e.low:+.3f}, {e.high:+.3f}]"


def judge_difference(differences: NDArray[np.float64], claim: str, paper: str, direction: int = 1) -> JudgedClaim:
    """A claim that differences over examples lie above zero (direction +1) or below (-1)."""
    e = bootstrap_mean(differences)
    test = paired_test(differences, np.zeros(len(differences)), alternative="two-sided")
    ours = f"{with_interval(e)}, p = {test.p_value:.2g}, n = {e.count}"
    return JudgedClaim(claim, paper, ours, test.difference * direction > 0 if test.p_value <= ALPHA else None)


OF_NETWORKS: tuple[str, ...] = ("l-r", "loo-r L", "loo-r R")
OF_TEXTS = ("loo-r", "lerf", "morf", "delta")
"""The columns of table 1, and those of tables 2 and A1."""
PAPER_LAYERS = 12
"""Of the paper's BERT-base."""


@cache
def published_tables() -> dict[str, Any]:
    """Tables 1, 2 and A1 as they stand in the file."""
    text = files("looprop.study").joinpath("published-numbers.yaml").read_text(encoding="utf-8")
    tables: dict[str, Any] = yaml.safe_load(text)
    return tables


def published(experiment: str, data: str, method: str) -> dict[str, float]:
    """The paper's cells for a method on a data set, by metric; empty where it printed none.

    >>> published("baselines", "sst2", "cp-lrp")
    {'loo-r': 0.52, 'lerf': 1.0, 'morf': 0.22, 'delta': 0.79}
    >>> published("layers", "sst2", "attnlrp")["loo-r"]
    0.22
    """
    tables = published_tables()
    if experiment == "bilinear":
        metrics, cells = OF_NETWORKS, tables["bilinear"].get(method)
    else:
        baselines = tables["baselines"].get(data, {}) if experiment in ("baselines", "layers") else {}
        by_layer = tables["layers"].get(data, {}) if experiment == "layers" else {}
        metrics, cells = OF_TEXTS, (baselines | by_layer).get(method)
    return {} if cells is None else dict(zip(metrics, cells, strict=True))

"""The numbers that the paper printed, for display beside ours. No result is computed from them."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

OF_NETWORKS = ("l-r", "loo-r L", "loo-r R")
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
        return _named(OF_NETWORKS, tables["bilinear"].get(method))
    baselines = tables["baselines"].get(data, {}) if experiment in ("baselines", "layers") else {}
    by_layer = tables["layers"].get(data, {}) if experiment == "layers" else {}
    return _named(OF_TEXTS, (baselines | by_layer).get(method))


def _named(metrics: Sequence[str], cells: list[float] | None) -> dict[str, float]:
    return {} if cells is None else dict(zip(metrics, cells, strict=True))

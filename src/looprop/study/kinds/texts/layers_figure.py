"""Figure 2: LOO r and delta while CP-LRP replaces AttnLRP in the first k layers, the last k layers, and one layer.

Bands are intervals of the difference to AttnLRP on the same examples: a line whose band leaves the dashed line out
differs from it, which intervals of the means themselves, wide because examples differ, would hide.
"""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from looprop.display.figures import QUIET, style
from looprop.evaluation.result import Evaluation
from looprop.evaluation.summary import values_of
from looprop.metrics import Estimate, bootstrap_mean
from looprop.study.kinds.texts.layers import first_layers, from_layer, only_layer
from looprop.study.run import Run

PANELS = (("loo-r", "LOO r"), ("delta", "Δ = LeRF − MoRF"))
BASE_COLOUR = "#b3261e"
LINES: tuple[tuple[str, str, Callable[[int], str]], ...] = (
    ("front to back: layers 1 to k", "#0b6e99", first_layers),
    # The last k layers begin at layer K - k + 1; drawn over that layer, as the paper's table names it.
    ("back to front: layers k to last", "#c4641a", from_layer),
    ("layer k alone", "#3f7d3a", only_layer),
)


def layers_figure(runs: Sequence[Run]) -> Figure:
    """Two panels per run: r above, delta below; with runs on SST and IMDB these are the four panels of the paper."""
    with style():
        figure = Figure(figsize=(4.9 * len(runs), 6.6), layout="constrained", facecolor="white")
        grid = figure.subplots(2, len(runs), squeeze=False)
        for column, run in enumerate(runs):
            evaluation = run.evaluation()
            for row, (metric, title) in enumerate(PANELS):
                _panel(grid[row][column], evaluation, run.layers, metric, title)
            grid[0][column].set_title(run.data_title, fontsize=11, parse_math=False)
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside lower center", ncols=4 if len(runs) > 1 else 2, frameon=False, fontsize=9
        )
        figure.suptitle(
            "Bands: 95 % interval of the difference to AttnLRP on the same examples", fontsize=9, color=QUIET
        )
    return figure


def difference(values: Sequence[float], base: Sequence[float]) -> Estimate:
    """The mean difference over examples that have both values, with its interval.

    >>> e = difference([1.0, 2.0, 4.0], [0.5, 1.5, 3.5])
    >>> e.mean, e.low, e.high
    (0.5, 0.5, 0.5)
    """
    return bootstrap_mean(np.asarray(values) - np.asarray(base))


def _panel(axes: Axes, evaluation: Evaluation, layers: int, metric: str, title: str) -> None:
    every = list(range(1, layers + 1))
    values = values_of(evaluation.rows, metric)
    base = float(np.nanmean(values["attnlrp"]))
    for label, colour, method in LINES:
        gains = [difference(values[method(k)], values["attnlrp"]) for k in every]
        means = [base + e.mean for e in gains]
        axes.plot(every, means, marker="o", markersize=3.5, linewidth=1.4, color=colour, label=label)
        low, high = [base + e.low for e in gains], [base + e.high for e in gains]
        axes.fill_between(every, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.axhline(base, color=BASE_COLOUR, linestyle="--", linewidth=1.2, label="AttnLRP")
    axes.set_xticks(every)
    axes.set_xlabel("layer k", color=QUIET)
    axes.set_ylabel(title)
    axes.grid(axis="y", color="#e3e6ea", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)

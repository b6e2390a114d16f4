"""Figure 2: LOO r and delta while CP-LRP replaces AttnLRP in the first k layers, the last k layers, and one layer.

Bands are intervals of the difference to AttnLRP on the same examples: a line whose band leaves the dashed line out
differs from it, which intervals of the means themselves, wide because examples differ, would hide.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from looprop.display.figures import QUIET, style
from looprop.evaluation.result import Evaluation
from looprop.evaluation.summary import values_of
from looprop.metrics import Estimate, bootstrap_mean
from looprop.study.reproducing import Run

PANELS = (("loo-r", "LOO r"), ("delta", "Δ = LeRF − MoRF"))
COLOURS = {"front": "#0b6e99", "back": "#c4641a", "single": "#3f7d3a"}
BASE = "#b3261e"


def layers_figure(runs: Sequence[Run]) -> Figure:
    """Two panels per run: r above, delta below; with runs on SST and IMDB these are the four panels of the paper."""
    with style():
        figure = Figure(figsize=(4.9 * len(runs), 6.6), layout="constrained", facecolor="white")
        grid = figure.subplots(2, len(runs), squeeze=False)
        for column, run in enumerate(runs):
            evaluation = run.evaluation()
            for row, (metric, title) in enumerate(PANELS):
                _panel(grid[row][column], evaluation, int(run.manifest["layers"]), metric, title)
            grid[0][column].set_title(run.manifest["data_title"], fontsize=11, parse_math=False)
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
    lines = {
        "front": ("front to back: layers 1 to k", [f"lrp[cp=:{k}]" for k in every]),
        # The last k layers begin at layer K - k + 1; drawn over that layer, as the paper's table names it.
        "back": ("back to front: layers k to last", [f"lrp[cp={k}:]" for k in every]),
        "single": ("layer k alone", [f"lrp[cp={k}]" for k in every]),
    }
    values = values_of(evaluation.rows, metric)
    base = float(np.nanmean(values["attnlrp"]))
    for kind, (label, methods) in lines.items():
        found = [difference(values[method], values["attnlrp"]) for method in methods]
        axes.plot(
            every,
            [base + e.mean for e in found],
            marker="o",
            markersize=3.5,
            linewidth=1.4,
            color=COLOURS[kind],
            label=label,
        )
        low, high = [base + e.low for e in found], [base + e.high for e in found]
        axes.fill_between(every, low, high, color=COLOURS[kind], alpha=0.15, linewidth=0)
    axes.axhline(base, color=BASE, linestyle="--", linewidth=1.2, label="AttnLRP")
    axes.set_xticks(every)
    axes.set_xlabel("layer k", color=QUIET)
    axes.set_ylabel(title)
    axes.grid(axis="y", color="#e3e6ea", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)

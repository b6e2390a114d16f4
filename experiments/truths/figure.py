"""Two truths in one picture: r to leave-one-out across, r to the Shapley value upwards, one point per method."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from looprop.display.figures import QUIET, style
from looprop.naming import split_name
from looprop.study import Run
from looprop.study.report.grids import name_of

from .measuring import METRICS

POINT, INTERVAL = "#0b6e99", "#a9c6d4"
LEAST_SPACE = 0.055
"""Labels whose points lie near each other stand at least so far apart, in units of r."""


def truths_figure(runs: Sequence[Run]) -> Figure:
    """One panel per run; on the dashed line a method is as close to one reference as to the other."""
    with style():
        figure = Figure(figsize=(5.6 * len(runs), 5.2), layout="constrained", facecolor="white")
        for axes, run in zip(figure.subplots(1, len(runs), squeeze=False)[0], runs, strict=True):
            points = []
            for summary in run.evaluation().summary:
                if split_name(summary.method)[0] == "lrp":
                    continue
                loo, shapley = (summary.metrics[metric] for metric in METRICS)
                if not loo.count or not shapley.count:
                    continue
                axes.plot([loo.low, loo.high], [shapley.mean] * 2, color=INTERVAL, linewidth=1.0, zorder=1)
                axes.plot([loo.mean] * 2, [shapley.low, shapley.high], color=INTERVAL, linewidth=1.0, zorder=1)
                axes.plot(loo.mean, shapley.mean, "o", markersize=4.5, color=POINT, zorder=2)
                points.append((loo.mean, shapley.mean, name_of(summary.method)))
            for x, y, place, label in placed(points):
                axes.annotate(label, (x, y), xytext=(x + 0.02, place), fontsize=7.5, color=POINT, va="center")
            axes.plot([-1, 1], [-1, 1], linestyle="--", color=QUIET, linewidth=0.8, zorder=0)
            axes.set_xlim(-0.25, 1.25)
            axes.set_ylim(-0.25, 1.05)
            axes.set_xlabel("mean r to leave-one-out", color=QUIET)
            axes.set_ylabel("mean r to the Shapley value", color=QUIET)
            axes.set_title(f"{run.data_title}, {run.model}", fontsize=10, parse_math=False)
            axes.spines[["top", "right"]].set_visible(False)
    return figure


def placed(points: Sequence[tuple[float, float, str]]) -> list[tuple[float, float, float, str]]:
    """Points with the heights of their labels: from the top down, each below those above it that stand near.

    >>> placed([(0.5, 0.5, "a"), (0.5, 0.49, "b")])
    [(0.5, 0.5, 0.5, 'a'), (0.5, 0.49, 0.445, 'b')]
    """
    found: list[tuple[float, float, float, str]] = []
    for x, y, label in sorted(points, key=lambda point: -point[1]):
        near = [place for other, _, place, _ in found if abs(other - x) < 0.3]
        found.append((x, y, round(min([y, *(place - LEAST_SPACE for place in near)]), 6), label))
    return found

"""How close to leave-one-out each method comes, against what it costs."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from looprop.display.figures import QUIET, style
from looprop.evaluation.summary import MethodSummary
from looprop.experiments.reproducing import Run
from looprop.reports.names import name_of

OURS, OTHERS = "#0b6e99", "#c4641a"
LEAST_SPACE = 0.045
"""Labels at the same cost stand at least so far apart, in units of r."""


def cost_figure(runs: Sequence[Run]) -> Figure:
    """One panel per run: mean r to leave-one-out over forward passes, looprop's budgets joined by a line."""
    with style():
        figure = Figure(figsize=(5.6 * len(runs), 4.4), layout="constrained", facecolor="white")
        grid = figure.subplots(1, len(runs), squeeze=False, sharey=True)[0]
        for axes, run in zip(grid, runs, strict=True):
            evaluation = run.evaluation()
            _panel(axes, [evaluation[method] for method in evaluation.methods])
            axes.set_title(f"{run.manifest['data_title']}, {run.manifest['model']}", fontsize=10, parse_math=False)
        grid[0].set_ylabel("mean r to leave-one-out")
    return figure


def _panel(axes: Axes, found: Sequence[MethodSummary]) -> None:
    known = [s for s in found if s.cost > 0 and s.metrics["loo-r"].count]  # costless ones have no place on a logarithmic axis
    ours = sorted((s for s in known if s.method.startswith("looprop")), key=lambda s: s.cost)
    others = [s for s in known if not s.method.startswith("looprop")]
    for some, colour, joined in ((ours, OURS, "-"), (others, OTHERS, "")):
        r = [s.metrics["loo-r"] for s in some]
        errors = ([e.mean - e.low for e in r], [e.high - e.mean for e in r])
        axes.errorbar([s.cost for s in some], [e.mean for e in r], errors, fmt=f"o{joined}", markersize=4, linewidth=1.3, color=colour)
    for some, colour, below in ((ours, OURS, -10), (others, OTHERS, 2)):
        heights = spread([s.metrics["loo-r"].mean for s in some], [s.cost for s in some])
        for s, height in zip(some, heights, strict=True):
            place: dict[str, Any] = {"xytext": (6, below), "textcoords": "offset points"}
            axes.annotate(name_of(s.method), (s.cost, height), fontsize=7.5, color=colour, **place)
    axes.set_xscale("log")
    axes.set_xlabel("cost in forward passes", color=QUIET)
    axes.grid(color="#e3e6ea", linewidth=0.6)
    axes.margins(x=0.16)
    axes.spines[["top", "right"]].set_visible(False)


def spread(heights: Sequence[float], costs: Sequence[float]) -> list[float]:
    """Heights for labels: those at nearly the same cost are moved apart, upwards, in their order.

    >>> spread([0.5, 0.5, 0.9], [3.0, 3.0, 3.0])
    [0.5, 0.545, 0.9]
    """
    placed = list(heights)
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    for n, i in enumerate(order):
        near = [placed[j] for j in order[:n] if max(costs[i], costs[j]) < 1.3 * min(costs[i], costs[j])]
        if near:
            placed[i] = max(placed[i], max(near) + LEAST_SPACE)
    return placed

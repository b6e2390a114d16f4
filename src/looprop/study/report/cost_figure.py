"""How close to leave-one-out each method comes, against what it costs."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from looprop.display.figures import QUIET, style
from looprop.evaluation.summary import MethodSummary
from looprop.naming import split_name
from looprop.study.report.names import name_of
from looprop.study.reproducing import Run

OURS, OTHERS = "#0b6e99", "#c4641a"
LEAST_SPACE = 0.045
"""Labels at the same cost stand at least so far apart, in units of r."""
LONG = 4
"""Longer labels of points on a line stand above those of their neighbours."""
NEAR = 0.06
"""Costs that differ by less lie upon each other."""


def cost_figure(runs: Sequence[Run]) -> Figure:
    """One panel per run: mean r to leave-one-out over forward passes; looprop's budgets joined by lines, one for
    passes, one for shares.
    """
    with style():
        figure = Figure(figsize=(5.9 * len(runs), 4.6), layout="constrained", facecolor="white")
        grid = figure.subplots(1, len(runs), squeeze=False, sharey=True)[0]
        for axes, run in zip(grid, runs, strict=True):
            evaluation = run.evaluation()
            _panel(axes, [evaluation[method] for method in evaluation.methods])
            axes.set_title(f"{run.manifest['data_title']}, {run.manifest['model']}", fontsize=10, parse_math=False)
        grid[0].set_ylabel("mean r to leave-one-out")
        grid[0].legend(loc="lower right", frameon=False, fontsize=8)
    return figure


def _panel(axes: Axes, found: Sequence[MethodSummary]) -> None:
    known = [
        s for s in found if s.cost > 0 and s.metrics["loo-r"].count
    ]  # costless ones have no place on a logarithmic axis
    ours = sorted((s for s in known if s.method.startswith("looprop")), key=lambda s: s.cost)
    others = [s for s in known if not s.method.startswith("looprop")]
    shares = [s for s in ours if setting(s.method).endswith("%")]
    passes = [s for s in ours if s not in shares]
    _series(axes, passes, "o-", OURS, "looprop: as many passes for every text" if shares else "looprop")
    _series(axes, shares, "o--", OURS, "looprop: a share of LOO's cost", markerfacecolor="white")
    _series(axes, others, "D", OTHERS, "other methods")
    for number, (label, point, first) in enumerate(joined([*passes, *shares])):
        place: dict[str, Any] = {"xytext": (-6, 3), "ha": "right"}
        if first in shares:
            place = {"xytext": (6, -9), "ha": "left"}
        elif number:  # above the point's interval, and above the neighbours' labels if it is long
            point = (point[0], first.metrics["loo-r"].high)
            place = {"xytext": (0, 13 if len(label) > LONG else 3), "ha": "center"}
        axes.annotate(label, point, fontsize=7.5, color=OURS, textcoords="offset points", **place)
    for s, height in zip(
        others, spread([s.metrics["loo-r"].mean for s in others], [s.cost for s in others]), strict=True
    ):
        axes.annotate(
            name_of(s.method), (s.cost, height), xytext=(7, -2), textcoords="offset points", fontsize=7.5, color=OTHERS
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel("cost in forward passes", color=QUIET)
    axes.grid(color="#e3e6ea", linewidth=0.6)
    axes.margins(x=0.2, y=0.08)
    axes.spines[["top", "right"]].set_visible(False)


def _series(axes: Axes, some: Sequence[MethodSummary], form: str, colour: str, label: str, **options: Any) -> None:
    if some:
        r = [s.metrics["loo-r"] for s in some]
        errors = ([e.mean - e.low for e in r], [e.high - e.mean for e in r])
        costs, means = [s.cost for s in some], [e.mean for e in r]
        axes.errorbar(
            costs, means, errors, fmt=form, markersize=4.5, linewidth=1.3, color=colour, label=label, **options
        )


def setting(method: str) -> str:
    """What distinguishes one looprop from another: its passes, its share, or its options.

    >>> setting("looprop"), setting("looprop[budget=4]"), setting("looprop[budget=0.25]"), setting("looprop[rows=0]")
    ('default', '4', '25 %', 'rows=0')
    """
    _, options = split_name(method)
    name, _, value = options.partition("=")
    if name != "budget" or "," in options:
        return options or "default"
    return f"{float(value):g}" if float(value) >= 1 else f"{100 * float(value):g} %"


def joined(some: Sequence[MethodSummary]) -> list[tuple[str, tuple[float, float], MethodSummary]]:
    """Labels, where they belong, and whose they are first; points that lie upon each other share one."""
    found: list[tuple[str, tuple[float, float], MethodSummary]] = []
    for s in some:
        cost, r = s.cost, s.metrics["loo-r"].mean
        near = [
            i for i, (_, at, _) in enumerate(found) if abs(cost / at[0] - 1) < NEAR and abs(r - at[1]) < LEAST_SPACE / 2
        ]
        if near:
            label, at, first = found[near[0]]
            found[near[0]] = (f"{label}, {setting(s.method)}", at, first)
        else:
            found.append((setting(s.method) if len(some) > 1 else s.method, (cost, r), s))
    return found


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

"""The figures of runs on texts: figure 2, layer by layer, and how close to leave-one-out methods come at what cost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from looprop.display.figures import QUIET, style
from looprop.evaluation.result import Evaluation
from looprop.evaluation.summary import MethodSummary, values_of
from looprop.metrics import bootstrap_mean
from looprop.naming import split_name
from looprop.study.kinds.texts.layers import first_layers, from_layer, only_layer
from looprop.study.report.grids import name_of
from looprop.study.run import Run

PANELS = (("loo-r", "LOO r"), ("delta", "Δ = LeRF − MoRF"))
BASE_COLOUR = "#b3261e"
LINES: tuple[tuple[str, str, Callable[[int], str]], ...] = (
    ("front to back: layers 1 to k", "#0b6e99", first_layers),
    # The last k layers begin at layer K - k + 1; drawn over that layer, as the paper's table names it.
    ("back to front: layers k to last", "#c4641a", from_layer),
    ("layer k alone", "#3f7d3a", only_layer),
)

OURS, OTHERS = "#0b6e99", "#c4641a"
LEAST_SPACE = 0.045
"""Labels at the same cost stand at least so far apart, in units of r."""
LONG = 4
"""Longer labels of points on a line stand above those of their neighbours."""
NEAR = 0.06
"""Costs that differ by less lie upon each other."""


def layers_figure(runs: Sequence[Run]) -> Figure:
    """LOO r and delta while CP-LRP replaces AttnLRP in the first k layers, the last k layers, and one layer: two panels
    per run, r above, delta below; with runs on SST and IMDB these are the four panels of the paper.

    Bands are intervals of the difference to AttnLRP on the same examples: a line whose band leaves the dashed line out
    differs from it, which intervals of the means themselves, wide because examples differ, would hide.
    """
    with style():
        figure = Figure(figsize=(4.9 * len(runs), 6.6), layout="constrained", facecolor="white")
        grid = figure.subplots(2, len(runs), squeeze=False)
        for column, run in enumerate(runs):
            evaluation = run.evaluation()
            for row, (metric, title) in enumerate(PANELS):
                _layers_panel(grid[row][column], evaluation, run.layers, metric, title)
            grid[0][column].set_title(run.data_title, fontsize=11, parse_math=False)
        handles, labels = grid[0][0].get_legend_handles_labels()
        columns = 4 if len(runs) > 1 else 2
        figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
        bands = "Bands: 95 % interval of the difference to AttnLRP on the same examples"
        figure.suptitle(bands, fontsize=9, color=QUIET)
    return figure


def _layers_panel(axes: Axes, evaluation: Evaluation, layers: int, metric: str, title: str) -> None:
    every = list(range(1, layers + 1))
    values = values_of(evaluation.rows, metric)
    attnlrp = np.asarray(values["attnlrp"])
    base = float(np.nanmean(attnlrp))
    for label, colour, method in LINES:
        gains = [bootstrap_mean(np.asarray(values[method(k)]) - attnlrp) for k in every]  # examples that have both
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


def cost_figure(runs: Sequence[Run]) -> Figure:
    """One panel per run: mean r to leave-one-out over passes; lines join looprop's budgets, of passes and of shares."""
    with style():
        figure = Figure(figsize=(5.9 * len(runs), 4.6), layout="constrained", facecolor="white")
        grid = figure.subplots(1, len(runs), squeeze=False, sharey=True)[0]
        for axes, run in zip(grid, runs, strict=True):
            _cost_panel(axes, run.evaluation().summary)
            axes.set_title(f"{run.data_title}, {run.model}", fontsize=10, parse_math=False)
        grid[0].set_ylabel("mean r to leave-one-out")
        grid[0].legend(loc="lower right", frameon=False, fontsize=8)
    return figure


def _cost_panel(axes: Axes, summaries: Sequence[MethodSummary]) -> None:
    # Costless ones have no place on a logarithmic axis.
    shown = [s for s in summaries if s.cost > 0 and s.metrics["loo-r"].count]
    ours = sorted((s for s in shown if _is_ours(s)), key=lambda s: s.cost)
    others = [s for s in shown if not _is_ours(s)]
    shares = [s for s in ours if (budget_of(s.method) or 1.0) < 1]
    passes = [s for s in ours if s not in shares]
    _series(axes, passes, "o-", OURS, "looprop: as many passes for every text" if shares else "looprop")
    _series(axes, shares, "o--", OURS, "looprop: a share of LOO's cost", markerfacecolor="white")
    _series(axes, others, "D", OTHERS, "other methods")
    _label_ours(axes, passes, shares)
    heights = spread([s.metrics["loo-r"].mean for s in others], [s.cost for s in others])
    place: dict[str, Any] = {"xytext": (7, -2), "textcoords": "offset points", "fontsize": 7.5, "color": OTHERS}
    for s, height in zip(others, heights, strict=True):
        axes.annotate(name_of(s.method), (s.cost, height), **place)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel("cost in forward passes", color=QUIET)
    axes.grid(color="#e3e6ea", linewidth=0.6)
    axes.margins(x=0.2, y=0.08)
    axes.spines[["top", "right"]].set_visible(False)


def _is_ours(summary: MethodSummary) -> bool:
    return split_name(summary.method)[0] == "looprop"


def _series(axes: Axes, some: Sequence[MethodSummary], form: str, colour: str, label: str, **options: Any) -> None:
    if some:
        r = [s.metrics["loo-r"] for s in some]
        errors = ([e.mean - e.low for e in r], [e.high - e.mean for e in r])
        costs, means = [s.cost for s in some], [e.mean for e in r]
        axes.errorbar(
            costs, means, errors, fmt=form, markersize=4.5, linewidth=1.3, color=colour, label=label, **options
        )


def _label_ours(axes: Axes, passes: Sequence[MethodSummary], shares: Sequence[MethodSummary]) -> None:
    for number, label in enumerate(joined([*passes, *shares])):
        at: tuple[float, float] = (label.cost, label.r)
        place: dict[str, Any] = {"xytext": (-6, 3), "ha": "right"}
        if label.first in shares:
            place = {"xytext": (6, -9), "ha": "left"}
        elif number:  # above the point's interval, and above the neighbours' labels if it is long
            at = (label.cost, label.first.metrics["loo-r"].high)
            place = {"xytext": (0, 13 if len(label.text) > LONG else 3), "ha": "center"}
        axes.annotate(label.text, at, fontsize=7.5, color=OURS, textcoords="offset points", **place)


def budget_of(method: str) -> float | None:
    """The budget of a looprop that differs in nothing else: passes, or a share below 1.

    >>> budget_of("looprop[budget=4]"), budget_of("looprop[budget=0.25]"), budget_of("looprop[rows=0]")
    (4.0, 0.25, None)
    """
    option, _, value = split_name(method)[1].partition("=")
    alone = option == "budget" and not {",", ";"} & set(value)
    return float(value) if alone else None


def setting(method: str) -> str:
    """What distinguishes one looprop from another: its passes, its share, or its options.

    >>> setting("looprop"), setting("looprop[budget=4]"), setting("looprop[budget=0.25]"), setting("looprop[rows=0]")
    ('default', '4', '25 %', 'rows=0')
    """
    budget = budget_of(method)
    if budget is None:
        return split_name(method)[1] or "default"
    return f"{budget:g}" if budget >= 1 else f"{100 * budget:g} %"


@dataclass(frozen=True, eq=False)
class Label:
    """A text at a point, and the first of the methods that it is of."""

    text: str
    cost: float
    r: float
    first: MethodSummary


def joined(summaries: Sequence[MethodSummary]) -> list[Label]:
    """What distinguishes each looprop, where it is drawn; points that lie upon each other share one label."""
    labels: list[Label] = []
    for s in summaries:
        cost, r = s.cost, s.metrics["loo-r"].mean
        for i, label in enumerate(labels):
            if abs(cost / label.cost - 1) < NEAR and abs(r - label.r) < LEAST_SPACE / 2:
                labels[i] = replace(label, text=f"{label.text}, {setting(s.method)}")
                break
        else:
            labels.append(Label(setting(s.method) if len(summaries) > 1 else s.method, cost, r, s))
    return labels


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

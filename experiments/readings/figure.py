"""The figure of the grid: for each number of table 1 all cells, by what the maps are divided by and by their zeros."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from looprop.display.figures import QUIET, style
from looprop.study import Run

from .cells import NUMBERS, Cell, cells_of, printed

PRINTED_COLOUR = "#b3261e"
GROUPS = (
    ("raw maps, one zero", "none", True, "#3f7d3a"),
    ("raw maps, two zeros", "none", False, "#0b6e99"),
    ("divided by sums, one zero", "sum", True, "#7a5ea8"),
    ("divided by sums, two zeros", "sum", False, "#c4641a"),
)


def readings_figure(run: Run) -> Figure:
    """One panel per number, one row of dots per group, a dot per network and seed."""
    cells = cells_of(run.rows)
    with style():
        figure = Figure(figsize=(10.5, 3.4), layout="constrained", facecolor="white")
        panels = figure.subplots(1, len(NUMBERS), sharey=True)
        for number, axes in enumerate(panels):
            _panel(axes, cells, number)
        panels[0].set_yticks(range(len(GROUPS)), [name for name, *_ in GROUPS])
        panels[0].invert_yaxis()
        figure.suptitle(
            "Table 1 under every reading: a dot is one network of the grid; the line is what the paper prints",
            fontsize=9,
            color=QUIET,
        )
    return figure


def _panel(axes: Axes, cells: Sequence[Cell], number: int) -> None:
    for row, (_, normalisation, one_zero, colour) in enumerate(GROUPS):
        values = {
            value
            for cell in cells
            if cell.choices.normalisation == normalisation
            and (cell.choices.loo_zero == cell.choices.ig_zero) == one_zero
            for value in cell.values[number]
        }
        axes.plot(sorted(values), [row] * len(values), "o", color=colour, alpha=0.45, markersize=4, linewidth=0)
    axes.axvline(printed()[number], color=PRINTED_COLOUR, linestyle="--", linewidth=1.2)
    axes.axvline(0, color=QUIET, linewidth=0.6)
    axes.set_xlim(-1.05, 1.05)
    axes.set_title(NUMBERS[number], fontsize=10)
    axes.grid(axis="x", color="#e3e6ea", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)

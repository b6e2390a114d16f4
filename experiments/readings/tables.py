"""The tables of the grid: the nearest cells, what each choice does, and the networks."""

from collections.abc import Sequence

from looprop.study import Grid, Measured, Run
from looprop.study.kinds.networks.training import accuracies
from looprop.study.report.grids import Cells

from .cells import NUMBERS, Cell, Value, cells_of, effects, printed

NEAREST = 12


def reading_tables(run: Run) -> list[Grid]:
    """All tables of a run."""
    cells = cells_of(run.rows)
    return [_nearest(run, cells), _effects(cells), _same_maps(cells), _networks(run)]


def _over_seeds(value: Value, paper: float | None = None) -> Measured:
    return Measured(sum(value) / len(value), min(value), max(value), len(value), paper, 3)


def accuracy_of(run: Run, reading: str) -> Value:
    """Test accuracy of the networks of a reading."""
    return tuple(share for _, share in accuracies(run.folder, reading))


def _nearest(run: Run, cells: Sequence[Cell]) -> Grid:
    rows: list[Cells] = []
    for cell in cells[:NEAREST]:
        c = cell.choices
        numbers = [_over_seeds(value, paper) for value, paper in zip(cell.values, printed(), strict=True)]
        chosen = [c.reading, c.loo_zero, c.ig_zero, c.normalisation, f"{c.epsilon:g}", c.names]
        rows.append([*chosen, _over_seeds(accuracy_of(run, c.reading)), *numbers, Measured(cell.distance, digits=3)])
    header = ["network", "LOO's zero", "IG's zero", "maps divided by", "epsilon", "names", "accuracy", *NUMBERS]
    note = (
        f"The {len(rows)} of {len(cells)} cells that come nearest to the four printed numbers: mean over seeds, in "
        "brackets the lowest and highest seed; distance: how far the worst of the four lies outside that range."
    )
    return Grid("Nearest to table 1", [*header, "distance"], rows, note, frozenset(NUMBERS))


def _effects(cells: Sequence[Cell]) -> Grid:
    rows: list[Cells] = [
        [choice.replace("_", " "), *(Measured(size, digits=3) for size in moved)]
        for choice, moved in effects(cells).items()
    ]
    note = "How far each number goes, in the mean over all cells, when only this choice changes."
    return Grid("Which choice moves which number", ["choice", *NUMBERS], rows, note)


def _same_maps(cells: Sequence[Cell]) -> Grid:
    """Integrated gradients of the same networks, by zero and normalisation."""
    rows: list[Cells] = []
    for cell in sorted(cells, key=lambda cell: str(cell.choices)):
        c = cell.choices
        if c.epsilon == min(other.choices.epsilon for other in cells) and c.names.startswith("L is Q (K"):
            rows.append([c.reading, c.loo_zero, c.ig_zero, c.normalisation, _over_seeds(cell.values[3], printed()[3])])
    note = "The same maps throughout: what changes is the zero that leave-one-out and the line start from, and the sum."
    header = ["network", "LOO's zero", "IG's zero", "maps divided by", "IG"]
    return Grid("Where the sign of integrated gradients comes from", header, rows, note, frozenset({"IG"}))


def _networks(run: Run) -> Grid:
    rows: list[Cells] = []
    for name, recipe in run.spec["cases"].items():
        built = [str(recipe[field]) for field in ("positions", "pooled", "scale", "batch", "epochs")]
        rows.append([name, *built, _over_seeds(accuracy_of(run, name)), str(recipe["seeds"])])
    header = ["network", "learned positions", "mean over positions", "pixels", "batch", "epochs", "accuracy", "seeds"]
    return Grid("The networks", header, rows, 'The paper\'s networks have "~85%".')

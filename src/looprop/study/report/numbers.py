"""A report's numbers as CSV, for other programs."""

from collections.abc import Sequence

from looprop.result.writers import Record, to_csv
from looprop.study.report.contents import Contents
from looprop.study.report.grids import Measured

COLUMNS = ("data", "table", "row", "column", "value", "low", "high", "n", "paper")


def numbers_csv(contents: Sequence[Contents]) -> bytes:
    """One line per number of every table. Low and high are its interval, or its lowest and highest seed."""
    rows: list[Record] = []
    for own in contents:
        for grid in own.tables:
            for row in grid.rows:
                label = " ".join(cell for cell in row[:2] if not isinstance(cell, Measured))
                for name, cell in zip(grid.header, row, strict=True):
                    if isinstance(cell, Measured):
                        values = (cell.value, cell.low, cell.high, cell.count, cell.paper)
                        line = (own.run.data_title, grid.title, label, name, *values)
                        rows.append(dict(zip(COLUMNS, line, strict=True)))
    return to_csv(rows, COLUMNS)

"""A report's numbers as CSV, for other programs."""

import csv
import io
import math
from collections.abc import Sequence

from looprop.study.report.contents import Contents
from looprop.study.report.grids import Measured

COLUMNS = ("data", "table", "row", "column", "value", "low", "high", "n", "paper")


def numbers_csv(contents: Sequence[Contents]) -> str:
    """One line per number of every table. Low and high are its interval, or its lowest and highest seed."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for own in contents:
        for grid in own.tables:
            for row in grid.rows:
                label = " ".join(cell for cell in row[:2] if not isinstance(cell, Measured))
                for name, cell in zip(grid.header, row, strict=True):
                    if isinstance(cell, Measured):
                        writer.writerow([own.run.data_title, grid.title, label, name, *_values(cell)])
    return file.getvalue()


def _values(cell: Measured) -> list[float | str]:
    """Nothing where a value is unknown."""
    values = (cell.value, cell.low, cell.high, cell.count, cell.paper)
    return ["" if value is None or math.isnan(value) else value for value in values]

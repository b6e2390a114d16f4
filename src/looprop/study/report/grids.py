"""Tables as plain data: what the kinds of experiments hand to a report."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from looprop.metrics import Estimate


@dataclass(frozen=True)
class Measured:
    """Our number with its interval and number of examples, and the paper's beside it where it printed one."""

    value: float
    low: float = math.nan
    high: float = math.nan
    count: int | None = None
    paper: float | None = None
    digits: int = 2
    best: bool = False

    @classmethod
    def of(cls, e: Estimate, **options: Any) -> "Measured":
        """A mean with its interval."""
        return cls(e.mean, e.low, e.high, e.count, **options)

    @property
    def interval(self) -> str:
        """[low, high], or nothing."""
        return "" if math.isnan(self.low) else f"[{self.shown(self.low)}, {self.shown(self.high)}]"

    @property
    def difference(self) -> str:
        """Ours minus the paper's."""
        if self.paper is None or math.isnan(self.value):
            return ""
        return f"{self._rounded(self.value - self.paper):+.{self.digits}f}"

    def shown(self, value: float | None) -> str:
        """A value in the digits of this number; a dash where there is none."""
        return "–" if value is None or math.isnan(value) else f"{self._rounded(value):.{self.digits}f}"

    def _rounded(self, value: float) -> float:
        return round(value, self.digits) + 0.0  # no minus sign before a zero


Cells = list[str | Measured]


@dataclass(frozen=True)
class Grid:
    """A table: names of columns, rows of texts and numbers.

    compared: columns that also show the paper's cell and the difference. sortable: by a click on a column, in a page.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str | Measured]]
    note: str = ""
    compared: frozenset[str] = field(default_factory=frozenset)
    sortable: bool = True

    def flat_header(self) -> list[str]:
        """The header with two more columns after each compared one."""
        return [name for h in self.header for name in ((h, "paper", "diff.") if h in self.compared else (h,))]

    def flat_rows(self) -> list[list[str]]:
        """Everything as text, in the columns of `flat_header`."""
        rows = []
        for row in self.rows:
            cells: list[str] = []
            for name, cell in zip(self.header, row, strict=True):
                if isinstance(cell, str):
                    cells += [cell, "", ""] if name in self.compared else [cell]
                    continue
                cells.append(f"{cell.shown(cell.value)} {cell.interval}".strip())
                if name in self.compared:
                    cells += [cell.shown(cell.paper), cell.difference or "–"]
            rows.append(cells)
        return rows

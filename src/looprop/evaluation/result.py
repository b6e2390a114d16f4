"""The result of an evaluation: a row per example and method, with its summary, comparisons, files and pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from looprop.display.data import number
from looprop.display.html import escape, fragment
from looprop.display.tables import Cell, Column, table
from looprop.errors import DataError
from looprop.evaluation.summary import MethodSummary, compare_methods, summarise_rows
from looprop.files import check_schema, plain, read_json, to_json, write_whole
from looprop.metrics import Comparison, get_metric
from looprop.running import parts
from looprop.running.parts import Row

if TYPE_CHECKING:
    import pandas

SCHEMA, VERSION = "looprop.evaluation", 1


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Methods measured on examples.

    rows: one dict per example and method: metrics, `cost` (in forward passes), `seconds`, `scores`, `loo`, `error`.
    metrics: the names of the metrics. title: says which data, and of a subset that it is one. about: the setup and the
        model.
    """

    rows: list[Row]
    metrics: tuple[str, ...]
    title: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)
    confidence: float = 0.95
    seed: int = 0

    @cached_property
    def summary(self) -> list[MethodSummary]:
        """Means with confidence intervals, numbers of undefined values, cost and time, by method."""
        return summarise_rows(self.rows, self.metrics, confidence=self.confidence, seed=self.seed)

    @property
    def methods(self) -> list[str]:
        """The methods, in the order of the rows."""
        return [found.method for found in self.summary]

    def __repr__(self) -> str:
        first = self.metrics[0] if self.metrics else ""
        means = ", ".join(f"{s.method} {number(s.metrics[first].mean)}" if first else s.method for s in self.summary)
        return f"Evaluation of {self.title}: {first + ' of ' if first else ''}{means}"

    def __getitem__(self, method: str) -> MethodSummary:
        for found in self.summary:
            if found.method == method:
                return found
        raise DataError(f"there is no method {method!r} in this evaluation; there are {', '.join(self.methods)}")

    def compare(self, metric: str = "loo-r") -> tuple[Comparison, ...]:
        """Which method beats which by a metric: two-sided paired tests over examples with Holm's correction."""
        return compare_methods(self.rows, metric, metrics=self.metrics, seed=self.seed)

    def to_pandas(self) -> "pandas.DataFrame":
        """The rows as a table."""
        import pandas

        return pandas.DataFrame(self.rows)

    def summary_to_pandas(self) -> "pandas.DataFrame":
        """The summary as a table, one row per method."""
        import pandas

        return pandas.DataFrame([found.to_dict() for found in self.summary]).set_index("method")

    def to_dict(self) -> dict[str, Any]:
        """Everything but the rows as plain data that JSON can hold, by the schema in
        docs/schema/evaluation.schema.json.
        """
        data: dict[str, Any] = {
            "schema": SCHEMA,
            "version": VERSION,
            "title": self.title,
            "about": plain(self.about, "about"),
        }
        data |= {"metrics": list(self.metrics), "confidence": self.confidence, "seed": self.seed}
        return data | {"summary": [plain(found.to_dict(), found.method) for found in self.summary]}

    def save(self, folder: str | Path) -> Path:
        """Writes rows.parquet and evaluation.json into a folder, which is made if need be."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        write_whole(place / "rows.parquet", parts.to_bytes(self.rows))
        write_whole(place / "evaluation.json", to_json(self.to_dict()))
        return place

    @classmethod
    def load(cls, folder: str | Path) -> "Evaluation":
        """Reads what `save` wrote."""
        data = read_json(Path(folder) / "evaluation.json")
        check_schema(data, SCHEMA, VERSION)
        try:
            rows = parts.from_bytes((Path(folder) / "rows.parquet").read_bytes())
        except (OSError, ValueError) as error:
            raise DataError(f"cannot read the rows of {folder}: {error}") from error
        return cls(rows, tuple(data["metrics"]), data["title"], data["about"], data["confidence"], data["seed"])

    def _repr_html_(self) -> str:
        return fragment(f"<h2>{escape(self.title)}</h2>" + summary_table(self.summary, self.metrics))


def summary_table(summary: Sequence[MethodSummary], metrics: Sequence[str]) -> str:
    """The summary as an HTML table with bars; the best method of each metric is marked (leave-one-out itself has no
    part in r).
    """
    best = {name: _best(summary, name) for name in metrics}
    columns = [Column("method"), *(Column(name, bars=True, tip=get_metric(name).description) for name in metrics)]
    columns += [
        Column("n"),
        Column("undefined"),
        Column("errors"),
        Column("cost", tip="forward passes per example"),
        Column("seconds"),
    ]
    rows: list[list[str | Cell]] = []
    for found in summary:
        cells: list[str | Cell] = [found.method]
        for name in metrics:
            e = found.metrics[name]
            tip = f"{number(e.low)} to {number(e.high)}, n = {e.count}"
            cells.append(Cell(e.mean, e.low, e.high, tip=tip, best=best[name] == found.method))
        used, undefined = _counts(found)
        cells += [
            Cell(used, text=str(used)),
            Cell(undefined, text=str(undefined)),
            Cell(found.errors, text=str(found.errors)),
        ]
        rows.append([*cells, Cell(found.cost), Cell(found.seconds)])
    return table(columns, rows)


def _counts(found: MethodSummary) -> tuple[int, int]:
    """The fewest examples that a metric could use, and the most on which one was undefined."""
    estimates = found.metrics.values()
    return min((e.count for e in estimates), default=0), max((e.undefined for e in estimates), default=0)


def _best(summary: Sequence[MethodSummary], metric: str) -> str | None:
    sign = 1 if get_metric(metric).higher_is_better else -1
    own = "loo" in get_metric(metric).needs
    known = [s for s in summary if s.metrics[metric].count and not (own and s.method == "loo")]
    return max(known, key=lambda s: sign * s.metrics[metric].mean).method if known else None

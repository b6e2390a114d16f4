"""The result of an evaluation: a row per example and method, with its summary, comparisons, files and pictures."""

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from looprop.display import number
from looprop.errors import DataError, InputError, UnknownNameError
from looprop.evaluation.page import SummaryTable, evaluation_fragment, evaluation_page, summary_table
from looprop.evaluation.summary import (
    MethodSummary,
    cheaper_loo,
    compare_methods,
    cut_of_rows,
    exact_notes,
    notes_of,
    removal_notes,
    summarise_rows,
    unmoved,
)
from looprop.files import plain, read_json, to_json, write_whole
from looprop.metrics import REFERENCES, Comparison, Metric, get_metric
from looprop.result.explanation import Explanation
from looprop.result.writers import FolderResult
from looprop.running import parts
from looprop.running.parts import Row

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Evaluation(FolderResult):
    """Methods measured on examples.

    rows: one dict per example and method: metrics, `cost` (in forward passes), `seconds`, `scores`, `loo`, `error`.
    metrics: the names of the metrics. title: says which data, and of a subset that it is one. about: the setup and the
        model. frames: texts and features of those examples on which methods disagree most, as explanations without
        scores.
    """

    SCHEMA = "looprop.evaluation"
    APART = ("rows", "frames")
    DERIVED = ("no_feature_matters", "truncated", "summary")

    rows: list[Row]
    metrics: tuple[str, ...]
    title: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)
    confidence: float = 0.95
    seed: int = 0
    frames: Mapping[str, Explanation] = field(default_factory=dict)

    @cached_property
    def summary(self) -> list[MethodSummary]:
        """Means with confidence intervals, numbers of undefined values, cost and time, by method."""
        return summarise_rows(self.rows, self.metrics, confidence=self.confidence, seed=self.seed)

    @cached_property
    def measures(self) -> list[Metric]:
        """The metrics themselves."""
        return [get_metric(name) for name in self.metrics]

    @property
    def methods(self) -> list[str]:
        """The methods, in the order of the rows."""
        return [found.method for found in self.summary]

    @cached_property
    def by_agreement(self) -> list[MethodSummary]:
        """The summary sorted by the first metric, the best method first, undefined ones last."""
        if not self.metrics:
            return self.summary
        first = self.measures[0].name
        sign = -1.0 if self.measures[0].higher_is_better else 1.0
        return sorted(self.summary, key=lambda s: sign * s.metrics[first].mean if s.metrics[first].count else math.inf)

    @cached_property
    def table(self) -> SummaryTable:
        """The summary as columns and cells, the best method by the first metric first: what pages, notebooks and
        terminals show.
        """
        return summary_table(self)

    @cached_property
    def notes(self) -> list[str]:
        """What a reader of the table must know: which texts were cut, on how many examples a reference says that no
        feature matters, what the references cost.
        """
        spent = (*exact_notes(self.rows), *cheaper_loo(self.summary))
        return [*notes_of(self.rows, self.metrics), *removal_notes(self.about), *spent]

    def mattering(self, reference: str = "loo") -> "Evaluation":
        """The same evaluation without the examples on which no feature matters to a reference, by
        `looprop.metrics.matters`, and without those of which that is not known; the title says how many are left.
        """
        if reference not in REFERENCES:
            raise UnknownNameError("reference", reference, REFERENCES)
        rows = [row for row in self.rows if row.get(f"{reference}_matters")]
        if not rows:
            raise DataError(f"there is no example on which a feature is known to matter to {REFERENCES[reference]}")
        left, all_ = (len({row["example"] for row in of}) for of in (rows, self.rows))
        title = f"{self.title}: {left} of {all_} examples, on which a feature matters to {REFERENCES[reference]}"
        return replace(self, rows=rows, title=title)

    @property
    def failed(self) -> dict[str, int]:
        """On how many examples each method failed, where it did; `rows` have the errors."""
        return {found.method: found.errors for found in self.summary if found.errors}

    @property
    def first_error(self) -> str:
        """What the first method that failed said; nothing if none did."""
        return next((row["error"] for row in self.rows if row["error"]), "")

    def check(self) -> None:
        """Raises where no method could be measured on any example."""
        if all(row["error"] for row in self.rows):
            raise InputError(f"no method could be measured on any example; the first error: {self.first_error}")

    def __repr__(self) -> str:
        first = self.metrics[0] if self.metrics else ""
        means = ", ".join(f"{s.method} {number(s.metrics[first].mean)}" if first else s.method for s in self.summary)
        return f"Evaluation of {self.title}: {first + ' of ' if first else ''}{means}"

    def __getitem__(self, method: str) -> MethodSummary:
        for found in self.summary:
            if found.method == method:
                return found
        raise DataError(f"there is no method {method!r} in this evaluation; there are {', '.join(self.methods)}")

    def compare(self, metric: str = "loo-r-no-special") -> tuple[Comparison, ...]:
        """Which method beats which by a metric: two-sided paired tests over examples with Holm's correction."""
        return compare_methods(self.rows, metric, metrics=self.metrics, seed=self.seed)

    def records(self) -> list[Row]:
        """The rows."""
        return self.rows

    def summary_to_pandas(self) -> "pandas.DataFrame":
        """The summary as a table, one row per method."""
        import pandas

        return pandas.DataFrame([found.to_dict() for found in self.summary]).set_index("method")

    def to_dict(self) -> dict[str, Any]:
        """Everything but the rows as plain data that JSON can hold, by the schema in
        docs/schema/evaluation.schema.json.
        """
        data = super().to_dict()
        still = {name: {"examples": count, "of": total} for name, (count, total) in unmoved(self.rows).items()}
        data |= {"no_feature_matters": still} if still else {}
        data |= {"truncated": asdict(cut)} if (cut := cut_of_rows(self.rows)) else {}
        return data | {"summary": [plain(found.to_dict(), found.method) for found in self.summary]}

    def page(self) -> str:
        """A page of HTML."""
        return evaluation_page(self)

    def fill(self, folder: Path) -> None:
        """Write rows.parquet, evaluation.json and, where some texts are kept, examples.json."""
        write_whole(folder / "rows.parquet", parts.to_bytes(self.rows))
        write_whole(folder / "evaluation.json", to_json(self.to_dict()))
        if self.frames:
            frames = {name: frame.to_dict() for name, frame in self.frames.items()}
            write_whole(folder / "examples.json", to_json(frames))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Read the folder that `save` wrote."""
        place = Path(folder)
        if place.is_file():
            raise DataError(f"{folder} is one file: an evaluation is loaded from the folder that has its rows")
        data = read_json(place / "evaluation.json")
        try:
            rows = parts.from_bytes((place / "rows.parquet").read_bytes())
        except (OSError, ValueError) as error:
            raise DataError(f"cannot read the rows of {folder}: {error}") from error
        told = read_json(place / "examples.json") if (place / "examples.json").is_file() else {}
        frames = {name: Explanation.from_dict(own) for name, own in told.items()}
        found = cls.from_dict(data, rows=rows, frames=frames)
        needed = {"example", "method", "error", *(metric.name for metric in found.measures)}
        if lacking := sorted(needed - set(rows[0] if rows else needed)):
            raise DataError(f"the rows of {folder} have no {', '.join(lacking)}: they are not those of this evaluation")
        return found

    def _repr_html_(self) -> str:
        return evaluation_fragment(self)

"""Methods measured on several models: an evaluation of each, beside each other. What a method is measured against, its
leave-one-out or its curves, is always that of the same model.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from looprop.display import Cell, Column, card, escape, estimated, fragment, page, paragraph, table
from looprop.errors import DataError, InputError
from looprop.evaluation.page import SummaryTable, best_of, meanings_html, metric_column, summary_html
from looprop.evaluation.result import Evaluation
from looprop.files import plain, read_json, to_json, write_whole
from looprop.result.writers import FolderResult, Record


@dataclass(frozen=True, eq=False)
class ModelEvaluations(FolderResult, Mapping[str, Evaluation]):
    """Evaluations of several models by name, of the same methods, metrics and examples."""

    SCHEMA = "looprop.evaluations"

    evaluations: Mapping[str, Evaluation]

    def __post_init__(self) -> None:
        if not self.evaluations:
            raise InputError("there is no model to compare")
        metrics = {evaluation.metrics for evaluation in self.evaluations.values()}
        if len(metrics) > 1:
            raise InputError(f"models are compared by the same metrics, got {sorted(metrics)}")

    def __getitem__(self, model: str) -> Evaluation:
        if model not in self.evaluations:
            raise DataError(f"there is no model {model!r} here; there are {', '.join(self.evaluations)}")
        return self.evaluations[model]

    def __iter__(self) -> Iterator[str]:
        return iter(self.evaluations)

    def __len__(self) -> int:
        return len(self.evaluations)

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {evaluation!r}" for name, evaluation in self.items())

    @property
    def first(self) -> Evaluation:
        """The evaluation of the first model."""
        return next(iter(self.evaluations.values()))

    @property
    def title(self) -> str:
        """Which data, and how many models."""
        return f"{self.first.title}, {len(self)} models"

    @property
    def methods(self) -> list[str]:
        """The methods of all models."""
        return list(dict.fromkeys(method for evaluation in self.values() for method in evaluation.methods))

    @cached_property
    def table(self) -> SummaryTable:
        """A row per method and model, with all metrics; the best method of each model is marked."""
        columns: list[Column] = []
        rows: list[list[str | Cell]] = []
        for model, evaluation in self.items():
            columns, own = evaluation.table
            rows += [[row[0], model, *row[1:]] for row in own]
        return [columns[0], Column("model"), *columns[1:]], rows

    @cached_property
    def beside(self) -> SummaryTable:
        """The first metric of every method, a column for each model: r to leave-one-out is that to the model's own."""
        if not self.first.metrics:
            return [Column("method")], [[method] for method in self.methods]
        metric = self.first.measures[0]
        columns = [Column("method"), *(Column(model, under=metric_column(metric).name) for model in self)]
        best = {model: best_of(evaluation.summary, metric) for model, evaluation in self.items()}
        rows: list[list[str | Cell]] = []
        for method in self.methods:
            row: list[str | Cell] = [method]
            for model, evaluation in self.items():
                row.append(estimated(evaluation[method].metrics[metric.name], best=best[model] == method))
            rows.append(row)
        return columns, rows

    @property
    def notes(self) -> list[str]:
        """What readers must know, by model."""
        return [f"{model}: {note}" for model, evaluation in self.items() for note in evaluation.notes]

    @property
    def failed(self) -> dict[str, int]:
        """On how many examples each method failed, by method and model."""
        return {f"{method} · {model}": n for model, own in self.items() for method, n in own.failed.items()}

    @property
    def first_error(self) -> str:
        """What the first method that failed said; nothing if none did."""
        return next((own.first_error for own in self.values() if own.first_error), "")

    def check(self) -> None:
        """Raises where no method could be measured on any example of a model."""
        for evaluation in self.values():
            evaluation.check()

    def to_dict(self) -> dict[str, Any]:
        """Everything but the rows: every evaluation by its own schema, under the name of its model."""
        own = {model: plain(evaluation.to_dict(), model) for model, evaluation in self.items()}
        return {"schema": self.SCHEMA, "version": self.VERSION, "evaluations": own}

    def records(self) -> list[Record]:
        """The rows of all models, with the name of the model in front."""
        return [{"model": model, **row} for model, evaluation in self.items() for row in evaluation.rows]

    def fill(self, folder: Path) -> None:
        """Write a folder of each model, and models.json, which names them."""
        folders = {model: f"model-{number}" for number, model in enumerate(self, start=1)}
        for model, name in folders.items():
            self[model].save(folder / name)
        write_whole(folder / "models.json", to_json(folders))

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Read the folder that `save` wrote."""
        folders = read_json(Path(folder) / "models.json")
        if not all(isinstance(name, str) and name == f"model-{i}" for i, name in enumerate(folders.values(), start=1)):
            raise DataError(f"{folder}/models.json must name the folders model-1, model-2, ...")
        return cls({model: Evaluation.load(Path(folder) / name) for model, name in folders.items()})

    def page(self) -> str:
        """A page of HTML."""
        note = paragraph("Every number is measured within one model: r to LOO is to that model's own leave-one-out.")
        body = card(self._beside_html() + note, title="Models side by side")
        for model, evaluation in self.items():
            body += card(summary_html(evaluation), title=model)
        body += card(meanings_html(self.first), title="What the columns mean")
        return page(self.title, body, subtitle=", ".join(self))

    def _beside_html(self) -> str:
        return f'<div class="wide-tables">{table(*self.beside)}</div>'

    def _repr_html_(self) -> str:
        return fragment(f"<h2>{escape(self.title)}</h2>{self._beside_html()}", plain=repr(self))


def by_name(models: Any) -> dict[str, Any]:
    """Models under their names: a mapping as it is, a list by the names that its models bring, without the folders or
    the owners before them where that is enough to tell them apart.
    """
    if isinstance(models, Mapping):
        return dict(models)
    for shorten in (lambda name: Path(name).name or name, str):
        named = {shorten(m.adapter.name): m for m in models}
        if len(named) == len(models):
            return named
    raise InputError(
        "several models bring the same name: give them as a mapping of names, {'before': m1, 'after': m2}; got "
        f"{', '.join(m.adapter.name for m in models)}"
    )

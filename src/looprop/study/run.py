"""A run as it lies in its folder: what was computed, and what it says."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from looprop.errors import DataError
from looprop.evaluation.result import Evaluation
from looprop.running.manifest import NAME, check_types
from looprop.running.parts import Row
from looprop.running.store import read_store
from looprop.study.kinds import get_kind

if TYPE_CHECKING:
    from looprop.study.claims import JudgedClaim
    from looprop.study.kind import Kind
    from looprop.study.report.grids import Grid


FIELDS = {"title": str, "tasks": int, "model": str, "data": str, "data_title": str}
"""What the manifest of an experiment says beside what every run says."""


@dataclass(frozen=True, eq=False)
class Run:
    """The manifest and the rows of a run, finished or not."""

    folder: Path
    manifest: dict[str, Any]
    rows: list[Row]

    @property
    def spec(self) -> dict[str, Any]:
        """The specification, as plain data."""
        spec: dict[str, Any] = self.manifest["identity"]["spec"]
        return spec

    @property
    def experiment(self) -> str:
        """The name of the experiment."""
        return str(self.spec["name"])

    @property
    def kind(self) -> "Kind":
        """The kind of the experiment."""
        return get_kind(str(self.spec["kind"]))

    @property
    def title(self) -> str:
        """Experiment, data and model; a subset says that it is one, and so does a run that is not finished."""
        return str(self.manifest["title"]) + ("" if self.finished else " (unfinished)")

    @property
    def data(self) -> str:
        """The name of the data set."""
        return str(self.manifest["data"])

    @property
    def data_title(self) -> str:
        """The data set and which part of it."""
        return str(self.manifest["data_title"])

    @property
    def model(self) -> str:
        """The name of the model."""
        return str(self.manifest["model"])

    @property
    def layers(self) -> int:
        """How many attention layers the model has; only runs on texts say so."""
        return int(self.manifest["layers"])

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of the rows."""
        return tuple(self.manifest["identity"].get("setup", {}).get("metrics", {}))

    @property
    def computed(self) -> set[str]:
        """The examples that have rows."""
        return {row["example"] for row in self.rows}

    @property
    def finished(self) -> bool:
        """Were all examples computed?"""
        return len(self.computed) == int(self.manifest["tasks"])

    @property
    def damaged(self) -> list[str]:
        """Parts that were found damaged and computed anew."""
        return [str(name) for session in self.manifest["sessions"] for name in session.get("damaged", ())]

    @property
    def failed(self) -> dict[str, str]:
        """Examples that failed again and again and have no rows yet, with their last errors."""
        computed = self.computed
        return {
            example: error
            for session in self.manifest["sessions"]
            for example, error in session.get("failed", {}).items()
            if example not in computed
        }

    def evaluation(self) -> Evaluation:
        """Means, intervals and comparisons of a run on texts."""
        return Evaluation(self.rows, self.metrics, self.title, self.manifest["identity"])

    def claims(self) -> "list[JudgedClaim]":
        """What the paper claims about this experiment, tested on these rows."""
        return self.kind.claims(self) if self.rows else []

    def tables(self) -> "list[Grid]":
        """The tables of the report."""
        return self.kind.tables(self)


def read_run(folder: str | Path) -> Run:
    """A run from its folder, finished or not."""
    store = read_store(folder)
    _check(store.manifest, store.folder)
    return Run(store.folder, store.manifest, store.rows())


def _check(manifest: dict[str, Any], folder: Path) -> None:
    """Raises for a manifest that lacks what a run of an experiment says, or says it in another form."""
    where = str(folder / NAME)
    for name in FIELDS:
        if name not in manifest:
            raise DataError(f"{where} says no {name}: it was edited, or is not of an experiment")
    check_types(manifest, {**FIELDS, "layers": int, "subset": bool, "examples": int}, where)
    spec = manifest["identity"].get("spec")
    if not isinstance(spec, dict) or not {"name", "kind", "question"} <= spec.keys():
        raise DataError(f"{where} says no experiment: it was edited, or is not of an experiment")

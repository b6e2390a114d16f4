"""A run as it lies in its folder: what was computed, and what it says."""

from dataclasses import dataclass, field
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
    """The manifest and the rows of a run, finished or not.

    spec: the specification as plain data; experiment: its name. title: experiment, data and model; a subset says so,
    and so does a run that is not finished. data: the name of the data set; data_title: with the part of it. layers: how
    many attention layers the model has, of runs on texts. metrics: of the rows. computed: the examples that have rows.
    damaged: parts that were found damaged and computed anew. failed: examples that failed again and again and have no
    rows yet, with their last errors.
    """

    folder: Path
    manifest: dict[str, Any]
    rows: list[Row]
    spec: dict[str, Any] = field(init=False)
    experiment: str = field(init=False)
    title: str = field(init=False)
    data: str = field(init=False)
    data_title: str = field(init=False)
    model: str = field(init=False)
    layers: int = field(init=False)
    metrics: tuple[str, ...] = field(init=False)
    computed: set[str] = field(init=False)
    finished: bool = field(init=False)
    damaged: list[str] = field(init=False)
    failed: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        manifest, identity = self.manifest, self.manifest["identity"]
        computed, sessions = {row["example"] for row in self.rows}, manifest.get("sessions", ())
        finished = len(computed) == manifest.get("tasks")
        failed = [one for session in sessions for one in session.get("failed", {}).items() if one[0] not in computed]
        found = {
            **{name: manifest.get(name, "") for name in ("data", "data_title", "model")},
            "spec": identity["spec"],
            "experiment": str(identity["spec"]["name"]),
            "title": manifest.get("title", "") + ("" if finished else " (unfinished)"),
            "layers": manifest.get("layers", 0),
            "metrics": tuple(identity.get("setup", {}).get("metrics", {})),
            "computed": computed,
            "finished": finished,
            "damaged": [str(name) for session in sessions for name in session.get("damaged", ())],
            "failed": dict(failed),
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    @property
    def kind(self) -> "Kind":
        """The kind of the experiment."""
        return get_kind(str(self.spec["kind"]))

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

"""Run an experiment, or go on with one that was stopped."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from looprop.evaluation.result import Evaluation
from looprop.running.engines import Engine, get_engine
from looprop.running.missing import EXAMPLES, SECONDS, run_missing
from looprop.running.parts import Row
from looprop.running.store import open_store, read_store
from looprop.study.job import Job, Options
from looprop.study.kinds.networks import prepare_networks
from looprop.study.kinds.texts import prepare_texts
from looprop.study.kinds.toys import prepare_toys
from looprop.study.spec import Spec, load_spec

_PREPARE: dict[str, Callable[[Spec, Options], Job]] = {
    "texts": prepare_texts,
    "networks": prepare_networks,
    "toys": prepare_toys,
}


@dataclass(frozen=True, eq=False)
class Run:
    """A run as it lies in its folder: manifest and rows."""

    folder: Path
    manifest: dict[str, Any]
    rows: list[Row]

    @property
    def experiment(self) -> str:
        """The name of the experiment."""
        return str(self.spec["name"])

    @property
    def spec(self) -> dict[str, Any]:
        """The specification, as plain data."""
        spec: dict[str, Any] = self.manifest["identity"]["spec"]
        return spec

    @property
    def title(self) -> str:
        """Experiment, data and model; a subset says that it is one, and so does a run that is not finished."""
        return str(self.manifest["title"]) + ("" if self.finished else " (unfinished)")

    @property
    def finished(self) -> bool:
        """Were all examples computed?"""
        return len({row["example"] for row in self.rows}) == int(self.manifest["tasks"])

    @property
    def damaged(self) -> list[str]:
        """Parts that were found damaged and computed anew."""
        return [name for session in self.manifest["sessions"] for name in session["damaged"]]

    @property
    def failed(self) -> dict[str, str]:
        """Examples that failed again and again and have no rows yet, with their last errors."""
        known = {row["example"] for row in self.rows}
        return {
            e: error
            for session in self.manifest["sessions"]
            for e, error in session.get("failed", {}).items()
            if e not in known
        }

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of the rows."""
        return tuple(self.manifest["identity"].get("setup", {}).get("metrics", {}))

    def evaluation(self) -> Evaluation:
        """Means, intervals and comparisons of a run on texts."""
        return Evaluation(self.rows, self.metrics, self.title, self.manifest["identity"])


def reproduce(
    experiment: str | Path,
    *,
    model: Any = None,
    data: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    loo_from: str | Path | None = None,
    progress: bool = True,
    engine: str | Engine = "local",
    part_examples: int = EXAMPLES,
    part_seconds: float = SECONDS,
) -> Run:
    """Run an experiment into a folder; the same call goes on where an earlier one was stopped.

    With a larger limit it goes on from what the smaller one had: the examples of a smaller limit are among those of a
    larger.

    experiment: "bilinear", "softmax", "baselines", "layers", or a YAML file of one's own.
    model: a hub id, a folder, (model, tokenizer); None is the embedded model, "paper" the one that the paper used.
    data: one of the experiment's data sets (the first by default), or a file of texts.
    limit: how many examples, drawn by `seed`. out: the run folder; by default runs/<experiment>-<data>.
    loo_from: a run folder of the same model and texts whose leave-one-out is taken over, after some of it was computed
        again.
    engine: who computes: "local" is this process, "ray" a cluster (`get_engine("ray", address=...)` from
        `looprop.running.engines`); a run may be begun by one and continued by another.
    """
    chosen = get_engine(engine)
    spec = load_spec(experiment)
    job = _PREPARE[spec.kind](spec, Options(model, data, limit, seed, Path(loo_from) if loo_from is not None else None))
    folder = Path(out) if out is not None else Path("runs") / f"{spec.name}-{Path(job.about['data']).stem}"
    ids = [task.id for task in job.tasks]
    with open_store(folder, job.identity, grows=job.grows, title=job.title, tasks=len(ids), **job.about) as store:
        if loo_from is not None:
            taken = {task.id for task in job.tasks if task.loo is not None}
            store.note_session(loo_from={"run": Path(loo_from).name, "examples": len(taken & set(store.missing(ids)))})
        work = job.prepare(folder, progress=progress)
        shown = {"title": job.about["data_title"], "progress": progress}
        run_missing(store, job.tasks, work, engine=chosen, examples=part_examples, seconds=part_seconds, **shown)
        store.finish()
        return Run(folder, store.manifest, store.rows(ids))


def read_run(folder: str | Path) -> Run:
    """A run from its folder, finished or not."""
    store = read_store(folder)
    return Run(store.folder, store.manifest, store.rows())

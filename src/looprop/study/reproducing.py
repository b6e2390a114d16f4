"""Run an experiment, or go on with one that was stopped."""

import hashlib
from pathlib import Path
from typing import Any

from looprop.files import check_folder_place
from looprop.running.engines import Engine, get_engine
from looprop.running.manifest import NUMERICS
from looprop.running.missing import EXAMPLES, SECONDS, check_ids, run_missing
from looprop.running.store import open_store
from looprop.study.kind import Options
from looprop.study.kinds import get_kind
from looprop.study.run import Run
from looprop.study.spec import load_spec


def reproduce(
    experiment: str | Path,
    *,
    model: Any = None,
    data: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    loo_from: str | Path | None = None,
    references: str | Path | None = None,
    retry_failed: bool = False,
    progress: bool = True,
    engine: str | Engine = "local",
    part_examples: int = EXAMPLES,
    part_seconds: float = SECONDS,
) -> Run:
    """Run an experiment into a folder; the same call goes on where an earlier one was stopped.

    With a larger limit it goes on from what the smaller one had: the examples of a smaller limit are among those of a
    larger.

    experiment: a name of `experiment_names()` ("baselines", "remedy", ...), a YAML file of one's own, or a folder that
        holds the kind of the experiment as code, which is run, and its `experiment.yaml`.
    model: a hub id, a folder, (model, tokenizer); None is the embedded model, "paper" the one that the paper used.
    data: one of the experiment's data sets (the first by default), or a file of texts.
    limit: how many examples, drawn by `seed`. out: the run folder; by default runs/<experiment>-<data>.
    loo_from: a run folder of the same model and texts whose leave-one-out is taken over, after some of it was computed
        again.
    references: a file of Shapley values and leave-one-out, one JSON object a line (`python -m
        benchmarks.shapley_references`), for experiments of kind "truths"; each is checked before it is taken over, and
        texts without one are left out.
    retry_failed: compute those examples again of which a row holds an error.
    engine: who computes: "local" is this process, "ray" a cluster (`get_engine("ray", address=...)` from
        `looprop.running.engines`); a run may be begun by one and continued by another.
    """
    chosen = get_engine(engine)
    if out is not None:
        check_folder_place(out)
    spec = load_spec(experiment)
    source = Path(loo_from) if loo_from is not None else None
    known = Path(references) if references is not None else None
    job = get_kind(spec.kind).job(spec, Options(model, data, limit, seed, source, known))
    folder = Path(out) if out is not None else Path("runs") / f"{spec.name}-{Path(job.about.data).stem}"
    ids = [task.id for task in job.tasks]
    check_ids(ids)
    about: dict[str, Any] = {"title": job.title, "tasks": len(ids), **job.about.to_dict()}
    with open_store(folder, {**job.identity, "numerics": NUMERICS}, grows=job.grows, **about) as store:
        if source is not None:
            taken = [task.id for task in job.tasks if task.loo is not None]
            store.note_session(loo_from={"run": source.name, "examples": len(store.missing(taken))})
        if known is not None:
            of_file = hashlib.sha256(known.read_bytes()).hexdigest()
            store.note_session(references={"file": known.name, "hash": of_file})
        work = job.prepare(folder, progress=progress)
        run_missing(
            store,
            job.tasks,
            work,
            title=job.about.data_title,
            engine=chosen,
            progress=progress,
            retry=retry_failed,
            examples=part_examples,
            seconds=part_seconds,
        )
        store.finish()
        return Run(folder, store.manifest, store.rows(ids))

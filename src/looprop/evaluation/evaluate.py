"""`looprop.evaluate`: methods on texts, measured against what the model does when features are removed; and what every
method said of each text.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

from numpy.typing import ArrayLike

from looprop.errors import InputError, ShardError
from looprop.evaluation.example import Task, check_given, evaluate_framed, failed_rows, framed
from looprop.evaluation.examples import SHOWN, disagreements, said_of
from looprop.evaluation.models import ModelEvaluations, by_name
from looprop.evaluation.page import evaluation_page
from looprop.evaluation.references import KnownReference
from looprop.evaluation.result import Evaluation
from looprop.evaluation.setup import Setup, make_setup
from looprop.explained import frame_of
from looprop.inputs.examples import Dataset
from looprop.methods.base import Method
from looprop.methods.names import COMPARED
from looprop.metrics.correlation import Protocol
from looprop.models.adapter import Removal
from looprop.models.target import TargetLike
from looprop.progress import Advance, shown_by
from looprop.result.explanation import Explanation, Explanations
from looprop.running.engines import Engine, Sharded, get_engine
from looprop.running.manifest import NUMERICS
from looprop.running.missing import Gathering, check_ids
from looprop.running.model_identity import model_identity
from looprop.running.parts import Row
from looprop.running.provenance import fingerprint
from looprop.running.store import Store, open_store
from looprop.workbench import Workbench


class Choices(TypedDict, total=False):
    """The keywords of `evaluate`, for type checkers."""

    references: Sequence[str] | None
    shapley: Mapping[str, KnownReference] | None
    scores: Mapping[str, Sequence[ArrayLike]] | None
    yardsticks: bool
    protocol: Protocol
    curve_features: str
    removal: Removal | None
    target: TargetLike
    truncation: bool
    engine: str | Engine
    confidence: float
    seed: int
    progress: bool | Advance


Data = Dataset | Sequence[Any]
Names = Sequence[str] | None
Methods = Sequence[str | Method]
Models = Sequence[Workbench] | Mapping[str, Workbench]


@overload
def evaluate(
    m: Workbench, data: Data, methods: Methods = ..., metrics: Names = ..., **choices: Unpack[Choices]
) -> Evaluation: ...


@overload
def evaluate(
    m: Models, data: Data, methods: Methods = ..., metrics: Names = ..., **choices: Unpack[Choices]
) -> ModelEvaluations: ...


def evaluate(
    m: Workbench | Models,
    data: Data,
    methods: Methods = COMPARED,
    metrics: Names = None,
    *,
    references: Sequence[str] | None = None,
    shapley: Mapping[str, KnownReference] | None = None,
    scores: Mapping[str, Sequence[ArrayLike]] | None = None,
    yardsticks: bool = False,
    protocol: Protocol = "raw",
    curve_features: str = "token",
    removal: Removal | None = None,
    target: TargetLike = None,
    truncation: bool = True,
    engine: str | Engine = "local",
    confidence: float = 0.95,
    seed: int = 0,
    progress: bool | Advance = False,
) -> Evaluation | ModelEvaluations:
    """Measure methods on a data set: one row per example and method, a summary, cost and time of every method.

    m: a model, or several as a list or by name: an evaluation of each is given then, beside each other.
    data: a `Dataset`, or a list of texts (pairs, images: whatever the model takes).
    references: "loo", "shapley" or both: adds the correlations with each, without and with special tokens, before the
        other metrics. Shapley values are dear, and computed only where a metric needs them;
        "shapley[samples=64]" limits them.
    shapley: Shapley values that are known from an earlier run, by example (`looprop.evaluation.known_shapley`).
    scores: maps that were computed elsewhere, by name: one array per example with one score per token, measured like
        our own.
    yardsticks: add random scores, token position and token length. Another reference is a method:
    "loo[removal=mask-token]".
    methods, metrics, protocol, curve_features, removal, target, truncation: see `Setup`.
    confidence: of the intervals of means. seed: of these intervals and of random scores.
    engine: who computes: "local" is this process, "ray" a cluster (`looprop.running.get_engine("ray", address=...)`).
    progress: True shows a bar; a function is called after every example, with what there is to say: `progress(note)`.
    """
    elsewhere = [name for name, given in (("scores", scores), ("shapley", shapley)) if given]
    if elsewhere and not isinstance(m, Workbench):
        raise InputError(f"{elsewhere[0]} are those of one model: evaluate models with them one by one")
    setup = make_setup(
        methods,
        metrics,
        references=references,
        scores=scores,
        yardsticks=yardsticks,
        protocol=protocol,
        curve_features=curve_features,
        removal=removal,
        target=target,
        truncation=truncation,
        seed=seed,
    )
    tasks = tasks_of(data, scores, shapley)
    title = data.title if isinstance(data, Dataset) else f"{len(tasks)} examples"
    return evaluate_tasks(m, tasks, setup, title, engine=engine, confidence=confidence, progress=progress)


def evaluate_tasks(
    m: Workbench | Models, tasks: Sequence[Task], setup: Setup, title: str, **run: Any
) -> Evaluation | ModelEvaluations:
    """`evaluate` of tasks under a setup that is made already.

    run: engine, confidence, progress; keep: a folder for rows that are done, from which the same call goes on.
    """
    if isinstance(m, Workbench):
        return _measured(m, m.adapter.name, tasks, setup, title, **run)
    return ModelEvaluations(
        {name: _measured(own, name, tasks, setup, title, **run) for name, own in by_name(m).items()}
    )


def _measured(
    m: Workbench,
    name: str,
    tasks: Sequence[Task],
    setup: Setup,
    title: str,
    *,
    engine: str | Engine = "local",
    confidence: float = 0.95,
    progress: bool | Advance = False,
    keep: Path | None = None,
) -> Evaluation:
    """One model on all examples."""
    if setup.given:
        check_given(m.adapter, tasks, setup)
    frames: dict[str, Explanation] = {}
    about: dict[str, Any] = {"model": name, "setup": setup.to_dict(), "removals": _removals(m, setup)}
    with shown_by(progress, title, len(tasks)) as advance, ExitStack() as stack:
        store = None if keep is None else stack.enter_context(_open_kept(keep, m, tasks, setup))
        found: dict[str, list[Row]] = {}
        for row in () if store is None else store.rows(store.where.keys() - store.failed):
            found.setdefault(row["example"], []).append(row)
        before, gathering = set(found), stack.enter_context(Gathering(store))
        if before:
            advance("going on", len(before))
        left = [task for task in tasks if task.id not in before]
        results = get_engine(engine)(partial(evaluate_framed, m.adapter, setup=setup), left)
        try:
            for rows, frame in results:
                example = rows[0]["example"]
                found[example] = rows
                gathering.add(rows)
                frames |= {} if frame is None else {example: frame}
                frames = _most_disputed(frames, found, setup) if len(frames) > 2 * SHOWN else frames
                advance(results.status() if isinstance(results, Sharded) else "")
        except ShardError as error:
            found |= {
                task.id: failed_rows(task, setup, error.failed[task.id]) for task in tasks if task.id in error.failed
            }
    if isinstance(results, Sharded) and left:
        about["engine"] = results.account()
    found = {task.id: found[task.id] for task in tasks}
    ordered = [row for rows in found.values() for row in rows]
    if before:  # rows were kept without their texts
        disputed = {one.example for one in disagreements(ordered, setup.columns)[:SHOWN]} & before
        for task in tasks:
            if task.id in disputed and (frame := framed(m.adapter, task, setup)) is not None:
                frames[task.id] = frame
    frames = {example: frames[example] for example in found if example in frames}
    shown = _most_disputed(frames, found, setup) if len(frames) > SHOWN else frames
    return Evaluation(ordered, setup.columns, title, about, confidence, setup.seed, shown)


def _open_kept(folder: Path, m: Workbench, tasks: Sequence[Task], setup: Setup) -> AbstractContextManager[Store]:
    """The rows that are done, in a folder of this model, these examples and this setup."""
    identity = {
        "setup": setup.to_dict(),
        "model": model_identity(m.adapter),
        "data": fingerprint({task.id: repr(task.item) for task in tasks}),
        "numerics": NUMERICS,
    }
    return open_store(folder / fingerprint(identity)[:16], identity)


def _most_disputed(
    frames: Mapping[str, Explanation], found: Mapping[str, Sequence[Row]], setup: Setup
) -> dict[str, Explanation]:
    """Texts and features of the examples on which methods disagree most; the others are not kept."""
    rows = [row for example, own in found.items() if example in frames for row in own]
    return {one.example: frames[one.example] for one in disagreements(rows, setup.columns)[:SHOWN]}


def _removals(m: Workbench, setup: Setup) -> dict[str, Any]:
    """How the reference removes features, and those methods that estimate a removal of their own."""
    own = {label: made.options.get("removal") or made.removes_by for label, made in setup.made.items()}
    return {"reference": setup.removal or m.adapter.removals[0], "methods": {k: v for k, v in own.items() if v}}


def tasks_of(
    data: Data,
    scores: Mapping[str, Sequence[ArrayLike]] | None = None,
    shapley: Mapping[str, KnownReference] | None = None,
) -> list[Task]:
    """The examples of a data set, or of a list of inputs, as they are measured."""
    if isinstance(data, str):
        raise InputError("data must be a Dataset or a list of texts, got one text: put it into a list")
    if isinstance(data, Dataset):
        items = [(example.id, example.text) for example in data.examples]
    else:
        items = [(str(i), item) for i, item in enumerate(data)]
    if not items:
        raise InputError("there are no examples to evaluate")
    check_ids([id for id, _ in items])
    scores, shapley = scores or {}, shapley or {}
    for name, maps in scores.items():
        if len(maps) != len(items):
            raise InputError(f"scores of {name!r}: expected one array per example ({len(items)}), got {len(maps)}")
    return [
        Task(id, item, {name: maps[i] for name, maps in scores.items()}, shapley=shapley.get(id))
        for i, (id, item) in enumerate(items)
    ]


def measured_explanations(m: Workbench, data: Dataset, evaluation: Evaluation) -> list[Explanations]:
    """The explanations that an evaluation has measured, text by text: it keeps their scores; everything else is the
    same for all methods.
    """
    frames = _frames(m, data, evaluation)
    return [said_of(f, [row for row in evaluation.rows if row["example"] == name]) for name, f in frames.items()]


def gallery_page(m: Workbench, data: Dataset, evaluation: Evaluation) -> str:
    """The page of an evaluation with all of its texts, those first on which methods disagree most."""
    return evaluation_page(
        replace(evaluation, frames=_frames(m, data, evaluation)),
        title=f"Every method on {len(data)} sentences",
        subtitle=f"{m.adapter.name}: which of them can you trust?",
    )


def _frames(m: Workbench, data: Dataset, evaluation: Evaluation) -> dict[str, Explanation]:
    """The frames of all texts; those that the evaluation has kept are not made again."""
    kept = evaluation.frames
    return {e.id: kept.get(e.id) or frame_of(m.subject(e.text, truncation=True)) for e in data}

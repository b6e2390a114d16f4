"""`looprop.evaluate`: methods on texts, measured against what the model does when features are removed."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, overload

from numpy.typing import ArrayLike

from looprop.errors import InputError, ShardError
from looprop.evaluation.example import Task, check_given, evaluate_example, failed_rows
from looprop.evaluation.examples import SHOWN, disagreements, frame_of
from looprop.evaluation.known import KnownReference
from looprop.evaluation.models import ModelEvaluations, by_name
from looprop.evaluation.result import Evaluation
from looprop.evaluation.setup import Setup, make_setup
from looprop.inputs.examples import Dataset
from looprop.methods.base import Method
from looprop.methods.names import COMPARED
from looprop.metrics.correlation import Protocol
from looprop.models.adapter import Removal
from looprop.models.target import TargetLike
from looprop.result.explanation import Explanation
from looprop.running.engines import Engine, Sharded, get_engine
from looprop.running.missing import check_ids
from looprop.running.parts import Row
from looprop.running.progress import Advance, shown_by
from looprop.workbench import Workbench


@overload
def evaluate(
    m: Workbench,
    data: Dataset | Sequence[Any],
    methods: Sequence[str | Method] = ...,
    metrics: Sequence[str] | None = ...,
    *,
    references: Sequence[str] | None = ...,
    shapley: Mapping[str, KnownReference] | None = ...,
    scores: Mapping[str, Sequence[ArrayLike]] | None = ...,
    yardsticks: bool = ...,
    protocol: Protocol = ...,
    curve_features: str = ...,
    removal: Removal | None = ...,
    target: TargetLike = ...,
    truncation: bool = ...,
    engine: str | Engine = ...,
    confidence: float = ...,
    seed: int = ...,
    progress: bool | Advance = ...,
) -> Evaluation: ...


@overload
def evaluate(
    m: Sequence[Workbench] | Mapping[str, Workbench],
    data: Dataset | Sequence[Any],
    methods: Sequence[str | Method] = ...,
    metrics: Sequence[str] | None = ...,
    *,
    references: Sequence[str] | None = ...,
    shapley: Mapping[str, KnownReference] | None = ...,
    scores: Mapping[str, Sequence[ArrayLike]] | None = ...,
    yardsticks: bool = ...,
    protocol: Protocol = ...,
    curve_features: str = ...,
    removal: Removal | None = ...,
    target: TargetLike = ...,
    truncation: bool = ...,
    engine: str | Engine = ...,
    confidence: float = ...,
    seed: int = ...,
    progress: bool | Advance = ...,
) -> ModelEvaluations: ...


def evaluate(
    m: Workbench | Sequence[Workbench] | Mapping[str, Workbench],
    data: Dataset | Sequence[Any],
    methods: Sequence[str | Method] = COMPARED,
    metrics: Sequence[str] | None = None,
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
    tasks = _tasks(data, scores or {}, shapley or {})
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
        keep_curves=True,
    )
    title = data.title if isinstance(data, Dataset) else f"{len(tasks)} examples"

    def measured(own: Workbench, named: str) -> Evaluation:
        return _measured(own, named, tasks, setup, (title, confidence, seed), engine, progress)

    if isinstance(m, Workbench):
        return measured(m, m.adapter.name)
    if elsewhere := [name for name, given in (("scores", scores), ("shapley", shapley)) if given]:
        raise InputError(f"{elsewhere[0]} are those of one model: evaluate models with them one by one")
    return ModelEvaluations({name: measured(own, name) for name, own in by_name(m).items()})


def _measured(
    m: Workbench,
    name: str,
    tasks: Sequence[Task],
    setup: Setup,
    about_it: tuple[str, float, int],
    engine: str | Engine,
    progress: bool | Advance,
) -> Evaluation:
    """One model on all examples. about_it: title, confidence, and the seed of the bootstrap."""
    check_given(m.adapter, tasks, setup)
    title, confidence, seed = about_it
    found: dict[str, list[Row]] = {}
    about: dict[str, Any] = {"model": name, "setup": setup.to_dict(), "removals": _removals(m, setup)}
    with shown_by(progress, title, len(tasks)) as advance:
        results = get_engine(engine)(partial(evaluate_example, m.adapter, setup=setup), tasks)
        try:
            for rows in results:
                found[rows[0]["example"]] = rows
                advance(results.status() if isinstance(results, Sharded) else "")
        except ShardError as error:
            found |= {
                task.id: failed_rows(task, setup, error.failed[task.id]) for task in tasks if task.id in error.failed
            }
    if isinstance(results, Sharded):
        about["engine"] = results.account()
    ordered = [row for task in tasks for row in found[task.id]]
    return Evaluation(ordered, setup.columns, title, about, confidence, seed, _frames(m, tasks, ordered, setup))


def _removals(m: Workbench, setup: Setup) -> dict[str, Any]:
    """How the reference removes features, and those methods that estimate a removal of their own."""
    own = {label: made.options.get("removal") or made.removes_by for label, made in setup.made.items()}
    return {"reference": setup.removal or m.adapter.removals[0], "methods": {k: v for k, v in own.items() if v}}


def _frames(m: Workbench, tasks: Sequence[Task], rows: Sequence[Row], setup: Setup) -> dict[str, Explanation]:
    """Texts and features of the examples on which methods disagree most; a forward pass each."""
    items, found = {task.id: task.item for task in tasks}, {}
    for one in disagreements(rows, setup.columns)[:SHOWN]:
        explanation = m.explain(items[one.example], "random", target=setup.target, truncation=setup.truncation)
        found[one.example] = frame_of(explanation)
    return found


def _tasks(
    data: Dataset | Sequence[Any], scores: Mapping[str, Sequence[ArrayLike]], shapley: Mapping[str, KnownReference]
) -> list[Task]:
    if isinstance(data, str):
        raise InputError("data must be a Dataset or a list of texts, got one text: put it into a list")
    if isinstance(data, Dataset):
        items = [(example.id, example.text) for example in data]
    else:
        items = [(str(i), item) for i, item in enumerate(data)]
    if not items:
        raise InputError("there are no examples to evaluate")
    check_ids([id for id, _ in items])
    for name, maps in scores.items():
        if len(maps) != len(items):
            raise InputError(f"scores of {name!r}: expected one array per example ({len(items)}), got {len(maps)}")
    return [
        Task(id, item, {name: maps[i] for name, maps in scores.items()}, shapley=shapley.get(id))
        for i, (id, item) in enumerate(items)
    ]

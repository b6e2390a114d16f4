"""`looprop.evaluate`: methods on texts, measured against what the model does when features are removed."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from numpy.typing import ArrayLike

from looprop.errors import InputError, ShardError
from looprop.evaluation.example import Task, check_given, evaluate_example, failed_rows
from looprop.evaluation.known_shares import KnownShapley
from looprop.evaluation.result import Evaluation
from looprop.evaluation.setup import make_setup
from looprop.inputs.examples import Dataset
from looprop.methods.base import Method
from looprop.methods.names import COMPARED
from looprop.metrics.correlation import Protocol
from looprop.models.adapter import Removal
from looprop.models.target import TargetLike
from looprop.running.engines import Engine, Sharded, get_engine
from looprop.running.missing import check_ids
from looprop.running.parts import Row
from looprop.running.progress import Advance, shown_by
from looprop.workbench import Workbench


def evaluate(
    m: Workbench,
    data: Dataset | Sequence[Any],
    methods: Sequence[str | Method] = COMPARED,
    metrics: Sequence[str] | None = None,
    *,
    references: Sequence[str] | None = None,
    shapley: Mapping[str, KnownShapley] | None = None,
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
) -> Evaluation:
    """Measure methods on a data set: one row per example and method, a summary, cost and time of every method.

    data: a `Dataset`, or a list of texts (pairs, images: whatever the model takes).
    references: "loo", "shapley" or both: adds the correlations with each, without and with special tokens, before the
        other metrics. Shapley values are dear, and computed only where a metric needs them;
        "shapley[samples=64]" limits them.
    shapley: Shapley values that are known from an earlier run, by example (`looprop.evaluation.known_shapley`).
    scores: maps that were computed elsewhere, by name: one array per example with one score per token, measured like
        our own.
    yardsticks: add random scores, token position and token length. Another reference is a method:
    "loo[removal=mask-token]".
    protocol, curve_features, removal, target, truncation: see `Setup`.
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
    )
    check_given(m.adapter, tasks, setup)
    title = data.title if isinstance(data, Dataset) else f"{len(tasks)} examples"
    found: dict[str, list[Row]] = {}
    about: dict[str, Any] = {"model": m.adapter.name, "setup": setup.to_dict()}
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
    return Evaluation(ordered, setup.columns, title, about, confidence, seed)


def _tasks(
    data: Dataset | Sequence[Any], scores: Mapping[str, Sequence[ArrayLike]], shapley: Mapping[str, KnownShapley]
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

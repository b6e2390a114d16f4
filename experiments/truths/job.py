"""What there is to do: every method on every text, with both references, computed or taken over."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from looprop.errors import DataError
from looprop.inputs.examples import Dataset
from looprop.methods.registry import make_method
from looprop.metrics import get_metric
from looprop.models.loading import load_adapter
from looprop.naming import split_name
from looprop.running.missing import Work
from looprop.running.model_identity import model_identity
from looprop.study import About, Job, Options, Spec
from looprop.study.kinds.texts import PAPER, TextSource, choose_source, data_identity, layers_of
from looprop.study.kinds.texts.layers import only_layer

from .known import read_known
from .measuring import METRICS, Protocol, TruthTask, measure_truths

MOST_LAYERS = 12
"""Plans for single layers of models of up to so many: each layer is one more method."""


def second_reference(methods: Sequence[str]) -> str:
    """The method that gives the Shapley values all others are compared with."""
    found = [method for method in methods if split_name(method)[0] == "shapley"]
    if len(found) != 1 or "loo" not in methods:
        raise DataError(f"methods must hold loo and one form of shapley, the two references, got {', '.join(methods)}")
    return found[0]


def truth_job(spec: Spec, options: Options) -> Job:
    """Load model, texts and known references, and say what there is to do."""
    options.check_unused("loo_from", because=f"{spec.name} takes both references over from --references FILE")
    source = choose_source(spec, options.data)
    known = read_known(options.references) if options.references is not None else None
    data = _chosen(source, options.limit, options.seed, known)
    adapter = load_adapter(source.settings.model if options.model == PAPER else options.model)
    layers = layers_of(adapter, data)
    plans = [only_layer(k) for k in range(1, layers + 1)] if spec.plans and layers <= MOST_LAYERS else []
    asked = list(dict.fromkeys([*(m for m in spec.methods if m not in source.settings.skip), *plans]))
    made = {label: make_method(label) for label in asked}
    settings = source.settings
    protocol = Protocol(made, made[second_reference(spec.methods)], settings.features, settings.target)
    fixed = {
        "spec": spec.to_dict(data=source.entry),
        "setup": {
            "methods": asked,
            "metrics": {name: get_metric(name).version for name in METRICS},
            "seed": options.seed,
        },
        "model": model_identity(adapter),
        "seed": options.seed,
    }

    def limited(limit: int) -> dict[str, Any]:
        return {**fixed, **data_identity(_chosen(source, limit, options.seed, known), limit)}

    def prepare(folder: Path, *, progress: bool) -> Work:
        return partial(measure_truths, adapter, protocol=protocol)

    tasks = [
        TruthTask(example.id, example.text, within=_within(source, example.text), known=(known or {}).get(example.text))
        for example in data
    ]
    title = f"{spec.name}: {data.title}, {adapter.name}"
    about = About(adapter.name, source.name, data.title, data.subset, len(data), layers)
    return Job(title, tasks, prepare, {**fixed, **data_identity(data, options.limit)}, about, limited)


def _chosen(source: TextSource, limit: int | None, seed: int, known: Mapping[str, Any] | None) -> Dataset:
    """The texts, or those drawn; where references are given, those of them that have some."""
    data = source.load(limit=limit, seed=seed)
    if known is None:
        return data
    chosen = tuple(example for example in data if example.text in known)
    if not chosen:
        raise DataError(f"the references are of no text of {data.title}")
    return replace(data, examples=chosen)


def _within(source: TextSource, text: str) -> tuple[int, int] | None:
    """Where the text stands in its template: what is around it stays."""
    if not source.settings.template:
        return None
    before, after = source.settings.template.split("{text}")
    return len(before), len(text) - len(after)

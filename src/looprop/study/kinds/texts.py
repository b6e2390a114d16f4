"""RQ2 and RQ3: methods, or plans layer by layer, on a data set of texts."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from looprop.errors import InputError, UnknownNameError
from looprop.evaluation.example import Task, evaluate_example
from looprop.evaluation.known_loo import KnownLoo, known_loo
from looprop.evaluation.setup import Setup
from looprop.inputs.datasets import load_dataset
from looprop.inputs.examples import Dataset
from looprop.inputs.files import read_texts
from looprop.methods.rollout import attention_maps
from looprop.models.adapter import Adapter
from looprop.models.loading import load_adapter
from looprop.running.missing import Work
from looprop.running.parts import Row
from looprop.running.provenance import weights_hash
from looprop.running.store import read_store
from looprop.study.job import Job, Options
from looprop.study.spec import DataSpec, Spec

PAPER = "paper"
"""As a model's name: the one that the paper used for this data set."""


def prepare_texts(spec: Spec, options: Options) -> Job:
    """Load model and data, and say what there is to do."""
    name, of_data = choose_data(spec, options.data)
    data = _load_data(name, of_data, options)
    adapter = load_adapter(of_data.model if options.model == PAPER else options.model)
    layers = adapter.attention_layers(adapter.encode(data.texts[0], truncation=True))
    plans = layer_plans(layers) if spec.plans else ()
    methods = (*(method for method in spec.methods if method not in of_data.skip), *plans, *of_data.yardsticks)
    setup = Setup(
        methods, spec.metrics, curve_features=of_data.curve_features, target=of_data.target, seed=options.seed
    )
    fixed = {
        "spec": spec.to_dict(),
        "setup": setup.to_dict(),
        "model": {"weights": weights_hash(adapter.model), "tokenizer": tokenizer_hash(adapter)},
        "seed": options.seed,
    }

    def limited(limit: int) -> dict[str, Any]:
        return {**fixed, **_subset(_load_data(name, of_data, replace(options, limit=limit)), limit)}

    about: dict[str, Any] = {"model": adapter.name, "layers": layers, "data": name}
    about |= {"data_title": data.title, "subset": data.subset, "examples": len(data)}
    measure = measure_with_entropy if spec.plans else evaluate_example

    def prepare(folder: Path, *, progress: bool) -> Work:
        return partial(measure, adapter, setup=setup)

    known = _known(options.loo_from, fixed) if options.loo_from is not None else {}
    tasks = [Task(example.id, example.text, loo=known.get(example.id)) for example in data]
    return Job(
        f"{spec.name}: {data.title}, {adapter.name}",
        tasks,
        prepare,
        {**fixed, **_subset(data, options.limit)},
        about,
        limited,
    )


def _known(folder: Path, fixed: Mapping[str, Any]) -> dict[str, KnownLoo]:
    """Leave-one-out of another run, which must have had the same model and the same way to choose and remove."""
    run = read_store(folder)
    before = run.manifest["identity"]
    if before.get("model") != fixed["model"]:
        other = f"of {run.manifest['model']}, with other weights or another tokenizer"
        whose = other if "model" in before else "not of a model on texts"
        raise InputError(f"leave-one-out of {folder} cannot be taken over: that run is {whose}")
    for name in ("removal", "target", "truncation"):
        own, other = fixed["setup"][name], before.get("setup", {}).get(name)
        if own != other:
            raise InputError(
                f"leave-one-out of {folder} cannot be taken over: its {name} was {other}, here it is {own}"
            )
    found = known_loo(run.rows())
    if not found:
        raise InputError(f"{folder} holds no leave-one-out that could be taken over")
    return found


def _subset(data: Dataset, limit: int | None) -> dict[str, Any]:
    """What an identity says of the data."""
    return {
        "data": {"name": data.name, "split": data.split, "hash": data.hash, "examples": len(data), "of": data.total},
        "limit": limit,
    }


def choose_data(spec: Spec, wanted: str | None) -> tuple[str, DataSpec]:
    """The data set of that name, by default the first; a file of one's own texts takes the first one's settings."""
    first = next(iter(spec.data))
    name = wanted or first
    if name in spec.data:
        return name, spec.data[name]
    if Path(name).suffix or Path(name).exists():
        return name, spec.data[first]
    raise UnknownNameError(f"data set of {spec.name}", name, spec.data)


def _load_data(name: str, of_data: DataSpec, options: Options) -> Dataset:
    """The texts, each in its template."""
    if Path(name).suffix or Path(name).exists():
        data = read_texts(name, limit=options.limit, seed=options.seed)
    else:
        source = of_data.source or name
        data = load_dataset(
            source, split=of_data.split or None, form=of_data.form, limit=options.limit, seed=options.seed
        )
        data = replace(data, name=name)
    if not of_data.template:
        return data
    return replace(data, examples=tuple(replace(e, text=of_data.template.replace("{text}", e.text)) for e in data))


def layer_plans(layers: int) -> tuple[str, ...]:
    """CP-LRP in the first k layers, in the last k, and in one layer, for every k, as method names.

    >>> layer_plans(2)
    ('lrp[cp=:1]', 'lrp[cp=:2]', 'lrp[cp=1:]', 'lrp[cp=2:]', 'lrp[cp=1]', 'lrp[cp=2]')
    """
    every = range(1, layers + 1)
    return (*(f"lrp[cp=:{k}]" for k in every), *(f"lrp[cp={k}:]" for k in every), *(f"lrp[cp={k}]" for k in every))


def measure_with_entropy(adapter: Adapter, task: Task, setup: Setup) -> list[Row]:
    """The rows of one example, with the mean attention entropy of each layer beside those of AttnLRP."""
    rows = evaluate_example(adapter, task, setup)
    entropies: list[float] = []
    if not rows[0]["error"]:
        encoded = adapter.encode(task.item, truncation=setup.truncation)
        entropies = [relative_entropy(weights) for weights in attention_maps(adapter, encoded)]
    return [{**row, "entropy": entropies if row["method"] == "attnlrp" else []} for row in rows]


def relative_entropy(weights: Tensor) -> float:
    """The entropy of attention rows as a share of its maximum, log T, averaged over heads and rows: 1 is flat, 0 is one
    key.

    >>> relative_entropy(torch.full((1, 3, 4), 0.25))
    1.0
    """
    if weights.shape[-1] < 2:
        return math.nan
    entropy = torch.special.entr(weights.double()).sum(-1) / math.log(weights.shape[-1])
    return float(entropy.mean())


def tokenizer_hash(adapter: Adapter) -> str:
    """SHA-256 of what a tokenizer does, as far as it can be written down."""
    tokenizer: Any = getattr(adapter, "tokenizer", None)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    text = backend.to_str() if backend is not None else repr(sorted(getattr(tokenizer, "get_vocab", dict)().items()))
    return hashlib.sha256(f"{text}:{getattr(tokenizer, 'model_max_length', None)}".encode()).hexdigest()

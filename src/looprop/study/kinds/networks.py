"""RQ1: the scalar product in its two groupings, and two linear-attention networks with shared weights."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from looprop.errors import DataError
from looprop.evaluation.example import Task, evaluate_example
from looprop.evaluation.setup import Setup
from looprop.files import write_whole
from looprop.inputs.examples import draw
from looprop.inputs.mnist import Digits, load_mnist
from looprop.metrics import correlate
from looprop.models.tensor_module import TensorModule
from looprop.running.missing import Work
from looprop.running.parts import Row
from looprop.running.progress import progress_bar
from looprop.running.provenance import weights_hash
from looprop.study.job import Job, Options
from looprop.study.mnist import LinearAttention, accuracy, reordered, shrink, train
from looprop.study.spec import Spec

POINT = (2.0, 3.0, 4.0)
"""Where figure 1 explains x1 x2 x3."""

Implementation = nn.Module | Callable[[Tensor], Tensor]

LEFT, RIGHT = "L", "R"
"""As in table 1: L is Q (K^T V), kv_first; R is (Q K^T) V, qk_first. Of the scalar product, L is (x1 x2) x3."""


def prepare_networks(spec: Spec, options: Options) -> Job:
    """Say what there is to do: per seed a network to train, per seed and image a task, and the scalar product."""
    if options.model is not None:
        raise DataError(f"{spec.name} trains its own networks: it takes no model")
    if options.loo_from is not None:
        raise DataError(f"{spec.name} computes its own leave-one-out: it takes no loo_from")
    if options.data not in (None, "mnist"):
        raise DataError(f"{spec.name} runs on mnist, got data {options.data!r}")
    of_data = spec.data["mnist"]
    training, test = load_mnist("train"), load_mnist(of_data.split or "test")
    names = [f"mnist/{test.split}/{i}" for i in range(len(test))]
    chosen = draw(names, limit=options.limit, seed=options.seed)
    pixels = shrink(test.images[chosen])
    setup = Setup(spec.methods, spec.metrics, seed=options.seed)
    product = Task("product", torch.tensor(POINT))
    images = [Task(f"seed {s}/{names[i]}", pixels[row]) for s in range(spec.seeds) for row, i in enumerate(chosen)]
    identity = {
        "spec": spec.to_dict(),
        "setup": setup.to_dict(),
        "data": {"training": training.hash, "test": test.hash, "examples": len(chosen), "of": len(test)},
        "limit": options.limit,
        "seed": options.seed,
    }
    subset = f" (subset: {len(chosen):,} of {len(test):,})" if len(chosen) < len(test) else ""
    title = f"mnist/{test.split}{subset}"
    about = {
        "model": "linear attention",
        "data": "mnist",
        "data_title": title,
        "subset": bool(subset),
        "examples": len(chosen),
    }

    def prepare(folder: Path, *, progress: bool) -> Work:
        networks = {}
        with progress_bar("training networks", spec.seeds, show=progress) as advance:
            for seed in range(spec.seeds):
                networks[seed] = trained(folder / "networks", training, test, seed)
                advance()
        return partial(measure_pair, networks, setup=setup)

    return Job(f"{spec.name}: {title}, {spec.seeds} seeds", [product, *images], prepare, identity, about)


def trained(folder: Path, training: Digits, test: Digits, seed: int) -> LinearAttention:
    """The network of a seed: read from the run folder, or trained and kept there with its test accuracy in the file's
    metadata.
    """
    folder.mkdir(exist_ok=True)
    network = LinearAttention("kv_first").eval()
    for path in folder.glob(f"seed-{seed}-*.safetensors"):
        network.load_state_dict(load_tensors(path.read_bytes()))
        if weights_hash(network)[:16] == path.stem.rpartition("-")[2]:
            return network
        path.unlink()
    network = train(training, seed=seed)
    about = {"seed": str(seed), "accuracy": repr(accuracy(network, test))}
    content = save_tensors(network.state_dict(), metadata=about)
    write_whole(folder / f"seed-{seed}-{weights_hash(network)[:16]}.safetensors", content, durable=True)
    return network


def measure_pair(networks: Mapping[int, LinearAttention], task: Task, setup: Setup) -> list[Row]:
    """One input through both implementations of one function: rows of both, with the agreement of their scores."""
    if task.id == "product":
        return compare_pair(left_product, right_product, task, setup, seed=-1)
    seed = int(task.id.split("/")[0].removeprefix("seed "))
    network = networks[seed]
    rows = compare_pair(network, reordered(network, "qk_first"), task, setup, seed=seed)
    return [
        {**row, "scores": [], "loo": []} for row in rows
    ]  # the maps of all images would be many times the size of their numbers


def left_product(x: Tensor) -> Tensor:
    """(x1 x2) x3"""
    return (x[:, 0] * x[:, 1]) * x[:, 2]


def right_product(x: Tensor) -> Tensor:
    """x1 (x2 x3)"""
    return x[:, 0] * (x[:, 1] * x[:, 2])


def compare_pair(left: Implementation, right: Implementation, task: Task, setup: Setup, *, seed: int) -> list[Row]:
    """Rows of both implementations; `l-r` and `l-r-paper` correlate a method's two score maps, raw and normalised to
    sum to one.

    Scores come from each implementation itself. What happens when features are removed is a matter of the one function
    that both compute, so the metrics of both are taken from the left one, which is cheaper.
    """
    of_right = evaluate_example(TensorModule(right), task, replace(setup, metrics=()))
    given = {f"{RIGHT}:{row['method']}": row["scores"] for row in of_right}
    rows = evaluate_example(TensorModule(left), replace(task, scores=given), replace(setup, given=tuple(given)))
    found: list[Row] = []
    for own, measured, twin in zip(rows[: len(of_right)], rows[len(of_right) :], of_right, strict=True):
        between = _agreement(own["scores"], twin["scores"])
        spent = {name: twin[name] for name in ("method", "output", "residual", "cost", "seconds", "note")}
        found.append({**own, "network": LEFT, "seed": seed, **between})
        found.append(
            {
                **measured,
                **spent,
                "error": twin["error"] or measured["error"],
                "network": RIGHT,
                "seed": seed,
                **between,
            }
        )
    return found


def _agreement(left: Sequence[float], right: Sequence[float]) -> Row:
    if not left or not right:
        return {"l-r": math.nan, "l-r-paper": math.nan, "l-r-flipped": None}
    raw, normalised = correlate(left, right), correlate(left, right, protocol="paper")
    return {"l-r": raw.value, "l-r-paper": normalised.value, "l-r-flipped": normalised.flipped}

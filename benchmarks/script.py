"""The evaluation that a researcher would write with captum: five methods, leave-one-out, curves and all metrics, one
text at a time.

Written to be fair: everything that removes tokens runs in batches, leave-one-out is computed once and used for all
methods.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

from benchmarks.exchange import Case, build, load_model
from benchmarks.sides.plain import embedded, loop, masked

Floats = NDArray[np.float64]
BATCH = 64
STEPS = 50


def evaluate_by_hand(model: Any, case: Case, methods: list[str]) -> list[dict[str, dict[str, float]]]:
    """For every text, the metrics of every method by name."""
    return [one_text(model, case, i, methods) for i in range(len(case.ids))]


def one_text(model: Any, case: Case, i: int, methods: list[str]) -> dict[str, dict[str, float]]:
    """Scores of all methods, then their metrics."""
    ids, target = case.ids[i], case.targets[i]
    forward = masked(model, ids, target)
    loo = ablation(forward, len(ids))
    output = float(loop(forward, np.ones((1, len(ids)), dtype=bool), 1)[0])
    special = np.zeros(len(ids), dtype=bool)
    special[[0, -1]] = True
    compute = {
        "loo": lambda: loo,
        "ig": lambda: gradient_method(model, ids, target, integrated=True),
        "grad-x-input": lambda: gradient_method(model, ids, target, integrated=False),
        "rollout": lambda: rollout(case.model, ids),
        "random": lambda: np.random.default_rng(i).standard_normal(len(ids)),
    }
    return {name: metrics(compute[name](), loo, special, output, forward) for name in methods}


def ablation(forward: Any, length: int) -> Floats:
    """captum's FeatureAblation of the attention mask."""
    from captum.attr import FeatureAblation

    with torch.inference_mode():
        scores = FeatureAblation(forward).attribute(torch.ones(1, length), baselines=0.0, perturbations_per_eval=BATCH)
    found: Floats = scores[0].double().numpy()
    return found


def gradient_method(model: Any, ids: NDArray[np.int64], target: int, *, integrated: bool) -> Floats:
    """captum's IntegratedGradients or InputXGradient on the word embeddings."""
    from captum.attr import InputXGradient, IntegratedGradients

    row = torch.from_numpy(ids)[None]

    def value(points: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = model(
            inputs_embeds=points, attention_mask=torch.ones_like(row).expand(len(points), -1)
        ).logits
        return logits[:, target]

    leaf = embedded(model, row)
    if integrated:
        scores = IntegratedGradients(value).attribute(
            leaf, n_steps=STEPS, method="riemann_middle", internal_batch_size=BATCH
        )
    else:
        scores = InputXGradient(value).attribute(leaf)
    found: Floats = scores.sum(-1)[0].detach().double().numpy()
    return found


@lru_cache(maxsize=1)
def eager(folder: Path) -> Any:
    """The model once more, in the form that hands out its attention."""
    plain = load_model(folder)
    config = {
        key: value
        for key, value in plain.config.to_dict().items()
        if key.startswith(("hidden_s", "num_", "inter", "max_", "layer", "vocab"))
    }
    model = build("bert", config, "eager")
    model.load_state_dict(plain.state_dict(), strict=False)
    return model


def rollout(folder: Path, ids: NDArray[np.int64]) -> Floats:
    """The class token's row of the product of (A + I) / 2."""
    with torch.inference_mode():
        maps = eager(folder)(input_ids=torch.from_numpy(ids)[None], output_attentions=True).attentions
    identity = torch.eye(len(ids))
    flow = identity
    for attention in maps:
        flow = (attention[0].mean(0) + identity) / 2 @ flow
    found: Floats = flow[0].double().numpy()
    return found


def curve(forward: Any, order: NDArray[np.intp]) -> Floats:
    """Target logits after each of the steps 1 to F - 1."""
    keep = np.ones((len(order) - 1, len(order)), dtype=bool)
    for step, position in enumerate(order[:-1]):
        keep[step:, position] = False
    return loop(forward, keep, BATCH)


def metrics(scores: Floats, loo: Floats, special: NDArray[np.bool_], output: float, forward: Any) -> dict[str, float]:
    """Correlations with leave-one-out, and both curves."""
    morf = curve(forward, np.argsort(-scores, kind="stable"))
    lerf = curve(forward, np.argsort(scores, kind="stable"))
    found = {
        "morf": morf.mean(),
        "lerf": lerf.mean(),
        "delta": lerf.mean() - morf.mean(),
        "aopc": output - morf.mean(),
        "insertion": (output + lerf.sum()) / (len(lerf) + 1),
        "deletion": (output + morf.sum()) / (len(morf) + 1),
        "loo-sign": float(np.mean(np.sign(scores[loo != 0]) == np.sign(loo[loo != 0]))),
    }
    for ending, own in (("", np.ones_like(special)), ("-no-special", ~special)):
        left, right = scores[own], loo[own]
        # Maps are normalised whole, special tokens included (section 4.2); then some of their tokens are compared.
        normalised = stats.pearsonr(left / scores.sum(), right / loo.sum())
        found[f"loo-r{ending}"] = stats.pearsonr(left, right).statistic
        found[f"loo-r-paper{ending}"] = normalised.statistic
        found[f"loo-spearman{ending}"] = stats.spearmanr(left, right).statistic
        found[f"loo-kendall{ending}"] = stats.kendalltau(left, right).statistic
    return {name: float(value) for name, value in found.items()}

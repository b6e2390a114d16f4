"""4. Faithfulness per cost: r to exact leave-one-out against forward passes, for our methods and those of the peers."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import cases
from benchmarks.exchange import read_case
from benchmarks.sections import Row, Sizes
from benchmarks.sections.evaluation import some_sentences
from benchmarks.team import OURS, SideError, Team
from looprop.metrics.correlation import pearson

Answers = list[NDArray[np.float64]]
Times = dict[str, float]
OUR_METHODS = ("loo", "looprop", "cp-lrp", "attnlrp", "grad-x-input", "ig", "rollout", "random")


def measure(team: Team, sizes: Sizes) -> list[Row]:
    """One row per method: mean r with and without special tokens, counted cost, CPU time in forward passes."""
    model = cases.embedded_model()
    texts, title = some_sentences(max(6, sizes.sentences // 6))
    case = cases.sentences(model, texts, "faithfulness")
    lengths = [len(ids) for ids in read_case(case).ids]
    loo = team.answers(OURS, "explain", case, method="loo")
    team.answers(OURS, "forward", case)
    forward = _per_text(team.timed_answers(OURS, "forward", case)[1], texts)
    rows = []

    def add(side: str, name: str, job: str, cost: float | Callable[[Times], float], options: dict[str, object]) -> None:
        row: Row = {"group": "faithfulness", "side": side, "method": name, "texts": len(texts), "data": title}
        try:
            scores, seconds = team.timed_answers(side, job, case, **options)
            counted = cost if isinstance(cost, float) else cost(seconds)
        except SideError as error:
            rows.append({**row, "error": str(error)})
            return
        rows.append({**row, **agreement(scores, loo), "cost": counted, "passes": _per_text(seconds, texts) / forward})

    for method in OUR_METHODS:
        add(OURS, method, "explain", lambda _, method=method: _counted(team, case, method), {"method": method})  # type: ignore[misc]
    mean = float(np.mean(lengths))
    add("captum", "FeatureAblation", "loo", mean + 1, {"batch": 16})
    add("captum", "IntegratedGradients, 50 steps", "ig", 150.0, {"steps": 50})
    add("lxt_efficient", "AttnLRP, efficient", "attnlrp", 3.0, {})
    add("lxt_explicit", "AttnLRP, explicit", "attnlrp", 3.0, {})
    add("interpreto", "Occlusion (mask token)", "occlusion", mean - 1, {"batch": 16})
    add("interpreto", "IntegratedGradients, 10 steps", "ig", 30.0, {"steps": 10})
    add("ferret", "LOO of taucorr_loo (deletion)", "loo", mean - 1, {})
    for evaluations in (50, 200):
        add(
            "shap",
            f"Partition, {evaluations} evaluations",
            "partition",
            lambda seconds: seconds["units"] / len(texts),
            {"evaluations": evaluations, "batch": 16},
        )
    team.forget()
    return rows


def agreement(scores: Answers, loo: Answers) -> Row:
    """Mean r over texts; scores without special tokens have no r with them."""
    between = [a if len(a) == len(b) - 2 else a[1:-1] for a, b in zip(scores, loo, strict=True)]
    whole = all(len(a) == len(b) for a, b in zip(scores, loo, strict=True))
    with_special = float(np.nanmean([pearson(a, b) for a, b in zip(scores, loo, strict=True)])) if whole else None
    return {
        "r": with_special,
        "r_no_special": float(np.nanmean([pearson(a, b[1:-1]) for a, b in zip(between, loo, strict=True)])),
    }


def _counted(team: Team, case: Path, method: str) -> float:
    return float(np.mean(team.answers(OURS, "costs", case, method=method)[0]))


def _per_text(seconds: Times, texts: list[str]) -> float:
    """CPU seconds of one text. Jobs that count variants are brought back to texts."""
    return seconds["cpu"] * seconds["units"] / len(texts)

"""How near to the Shapley value do methods come for the same number of forward passes?

    python -m benchmarks.shapley_references sst2 mpnet prompts   # first: what is measured by
    python -m benchmarks.fast_shapley sst2 mpnet prompts
    python -m benchmarks.fast_shapley mpnet --ours     # fast-shapley anew, the rows of all others as they were kept

r of every method's scores with the reference, over the features that do not always stay. All sets are paid by the rows
that are run, for the rivals as for us: a set of half of the features costs half a pass where rows can be left out, so
that a sampler gets about twice as many sets as passes. Permutations, KernelSHAP, LIME and shap's Partition explainer
(where shap is installed) are asked for as many sets as the passes pay for.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import RESULTS, write_json
from benchmarks.shapley_references import BENCHES, read_references
from looprop.games.sampling import kernel_shap, lime
from looprop.games.values import sampled_shapley
from looprop.methods.base import Method
from looprop.methods.parts.players import Players, players_of
from looprop.methods.registry import make_method
from looprop.models.subject import Subject

Floats = NDArray[np.float64]
BUDGETS = (6.5, 10, 20)
ALWAYS = ("attnlrp", "cp-lrp", "looprop[budget=10]", "loo", "alone", "both-ends")


def half_cost(players: Players) -> float:
    """What a set costs on average, where every size is as likely."""
    generator = np.random.default_rng(0)
    share = generator.random((200, 1))
    return float(players.set_cost(generator.random((200, len(players))) < share).mean())


def partition(players: Players, sets: int) -> Floats:
    """shap's Partition explainer on the same set function, features clustered in the order of the text."""
    import shap

    count = len(players)
    size = [1] * count
    links: list[list[float]] = []
    open_ = list(range(count))
    while len(open_) > 1:  # a balanced tree of neighbours
        pairs, rest = [(open_[i], open_[i + 1]) for i in range(0, len(open_) - 1, 2)], open_[len(open_) // 2 * 2 :]
        level = []
        for left, right in pairs:
            size.append(size[left] + size[right])
            links.append([left, right, float(len(links) + 1), size[-1]])
            level.append(len(size) - 1)
        open_ = level + rest
    masker = shap.maskers.Partition(np.zeros((1, count)), clustering=np.array(links, dtype=float))
    explainer = shap.explainers.Partition(lambda x: players(np.asarray(x) > 0.5), masker)
    found: Floats = explainer(np.ones((1, count)), max_evals=sets, silent=True).values[0]
    return found


def samplers(with_shap: bool) -> dict[str, Callable[[Players, int], Floats]]:
    """Rivals that are asked for so many sets."""
    rivals: dict[str, Callable[[Players, int], Floats]] = {
        "permutations": lambda p, sets: (
            sampled_shapley(p, len(p), tolerance=0.0, most=2 * max(1, round(sets / (2 * len(p))))).shares
        ),
        "kernel-shap": lambda p, sets: kernel_shap(p, len(p), samples=max(3, sets)),
        "lime": lambda p, sets: lime(p, len(p), samples=max(3, sets)),
    }
    return {**rivals, "partition": partition} if with_shap else rivals


def agreement(scores: Floats, reference: Floats) -> float:
    """r; NaN where there is nothing to correlate."""
    if len(scores) < 3 or np.ptp(scores) == 0 or np.ptp(reference) == 0:
        return float("nan")
    return float(np.corrcoef(scores, reference)[0, 1])


def measure(
    subject: Subject, keep: Any, row: dict[str, Any], with_shap: bool, *, ours: bool = False
) -> list[dict[str, Any]]:
    """One row per method and budget of one example; ours: of fast-shapley only."""
    own = np.setdiff1d(np.arange(len(row["shapley"])), row["stays"])
    reference = np.array(row["shapley"])[own]
    rows = []

    def note(name: str, passes: float | None, scores: Floats, cost: float) -> None:
        r = agreement(scores, reference)
        rows.append({"example": row["example"], "method": name, "passes": passes, "cost": round(cost, 2), "r": r})

    for name in () if ours else ALWAYS:
        options = {"keep": keep} if name in ("alone", "both-ends") else {}
        found = make_method(name, **options).attribute([subject.alone()])[0]
        note(name, None, found.scores[own], found.cost)
    price = half_cost(players_of(subject, keep=keep))
    for budget in BUDGETS:
        method: Method = make_method("fast-shapley", budget=budget, keep=keep)
        found = method.attribute([subject.alone()])[0]
        note("fast-shapley", budget, found.scores[own], found.cost)
        for name, ask in () if ours else samplers(with_shap).items():
            players = players_of(subject.alone(), keep=keep)
            before = players.value.count.computed
            scores = ask(players, max(3, round(budget / price)))
            note(name, budget, scores, (players.value.count.computed - before) * price)
    return rows


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean r and cost by method and budget, with the interval of the mean by resampling examples."""
    generator = np.random.default_rng(0)
    found = []
    for name, passes in dict.fromkeys((row["method"], row["passes"]) for row in rows):
        own = [row for row in rows if (row["method"], row["passes"]) == (name, passes)]
        r = np.array([row["r"] for row in own if np.isfinite(row["r"])])
        means = r[generator.integers(0, len(r), (2000, len(r)))].mean(1)
        low, high = np.percentile(means, [2.5, 97.5])
        counts = {"examples": len(r), "without_r": len(own) - len(r)}
        cost = float(np.mean([row["cost"] for row in own]))
        found.append(
            {"method": name, "passes": passes, "cost": cost, "r": r.mean(), "low": low, "high": high, **counts}
        )
    return found


def _replaced(kept: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The kept rows in their order, those that were measured anew in their place."""
    anew = {(row["example"], row["method"], row["passes"]): row for row in new}
    return [anew.get((row["example"], row["method"], row["passes"]), row) for row in kept]


def main(arguments: list[str] | None = None) -> int:
    """Measure what there is a reference for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=list(BENCHES))
    parser.add_argument("--count", type=int, help="fewer examples")
    parser.add_argument("--ours", action="store_true", help="fast-shapley only; others as in the kept file")
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    try:
        import shap  # noqa: F401
    except ImportError:
        print("shap is not installed: its Partition explainer is left out")
        with_shap = False
    else:
        with_shap = True
    for name in given.names:
        own, references = BENCHES[name], read_references(name)
        rows: list[dict[str, Any]] = []
        errors = [max(row["errors"]) / max(map(abs, row["shapley"])) for row in references.values()]
        for identifier, subject, keep in own.subjects(own.load()):
            if identifier in references and len({row["example"] for row in rows}) < (given.count or own.count):
                rows += measure(subject, keep, references[identifier], with_shap, ours=given.ours)
        result = {"bench": name, "asked": own.count, "references": len(references), "largest_error": max(errors)}
        if given.ours:
            kept = json.loads((given.output / f"fast_shapley_{name}.json").read_text(encoding="utf-8"))["rows"]
            rows = _replaced(kept, rows)
        figures = summary(rows)
        write_json(given.output / f"fast_shapley_{name}.json", {**result, "summary": figures, "rows": rows})
        for row in figures:
            print(f"{name:8} {row['method']:20} {row['passes'] or '':>5} {row['cost']:6.1f} {row['r']:.3f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

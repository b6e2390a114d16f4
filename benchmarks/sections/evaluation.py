"""2, last part. A whole evaluation: five methods and all metrics on SST-2 sentences, against a script written with captum."""

import statistics
from pathlib import Path

import numpy as np

from benchmarks import cases
from benchmarks.sections import Row, Sizes
from benchmarks.team import OURS, SideError, Team
from looprop.errors import LoopropError
from looprop.inputs.datasets import load_dataset
from looprop.inputs.demo import demo_sentences

METHODS = ("loo", "ig", "grad-x-input", "rollout", "random")
BAR = 2.5


def some_sentences(count: int) -> tuple[list[str], str]:
    """SST-2 dev sentences, or the demo sentences where the data are not at hand; and what they are."""
    try:
        data = load_dataset("sst2", limit=count)
        return data.texts, data.title
    except (LoopropError, OSError):
        texts = demo_sentences().texts[:count]
        return texts, f"{len(texts)} demo sentences (set LOOPROP_DATA for SST-2)"


def measure(team: Team, sizes: Sizes) -> list[Row]:
    """The ratio of the script's CPU time to ours, over blocks of sentences that take turns; and whether both say the same."""
    from looprop.metrics import metric_names

    model = cases.embedded_model()
    texts, title = some_sentences(sizes.sentences)
    size = -(-len(texts) // sizes.blocks)
    parts = [cases.sentences(model, texts[start : start + size], f"block-{start}") for start in range(0, len(texts), size)]
    asked = {"methods": list(METHODS), "metrics": list(metric_names())}
    row: Row = {"group": "evaluation", "texts": len(texts), "data": title, **asked, "bar": BAR}
    try:
        # The first block runs once more beforehand, to warm both sides up.
        turns = [{name: _time(team, name, part, asked) for name in (OURS, "captum")} for part in (parts[0], *parts)][1:]
        times = {name: [turn[name] for turn in turns] for name in (OURS, "captum")}
        found = {name: [a for part in parts for a in team.answers(name, "evaluation", part, **asked)] for name in (OURS, "captum")}
    except SideError as error:
        return [{**row, "error": str(error)}]
    ratios = [theirs["cpu"] / ours["cpu"] for ours, theirs in zip(times[OURS], times["captum"], strict=True)]
    known = [i for i, method in enumerate(METHODS) if method != "random"]
    gaps = [np.abs(a[known] - b[known]) for a, b in zip(found[OURS], found["captum"], strict=True)]
    quartiles = [float(q) for q in np.quantile(ratios, [0.25, 0.75])]
    totals = {name: {kind: float(np.mean([t[kind] for t in times[name]])) for kind in ("cpu", "wall")} for name in times}
    row |= {"seconds_per_text": totals, "ratio": statistics.median(ratios), "spread": quartiles}
    row |= {"wall_ratio": totals["captum"]["wall"] / totals[OURS]["wall"], "median_difference": float(np.nanmedian(np.stack(gaps)))}
    row["largest_difference"] = float(np.nanmax(np.stack(gaps)))
    team.forget()
    return [{**row, "met": row["ratio"] >= BAR}]


def _time(team: Team, name: str, case: Path, asked: dict[str, list[str]]) -> dict[str, float]:
    side = team.side(name)
    number, _ = side.prepare("evaluation", case, **asked)
    return side.ask(do="run", id=number, calls=1)

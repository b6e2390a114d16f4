"""2, last part. A whole evaluation: five methods and all metrics on SST-2 sentences, against a script written with
captum.
"""

import statistics

import numpy as np

from benchmarks import cases
from benchmarks.sections import Row, Sizes
from benchmarks.team import OURS, SideError, Team
from looprop.errors import LoopropError
from looprop.inputs import demo_sentences, load_dataset

METHODS = ("loo", "ig", "grad-x-input", "rollout", "random")
# What the script computes by hand.
METRICS = (
    "loo-r",
    "loo-r-no-special",
    "loo-r-paper",
    "loo-r-paper-no-special",
    "loo-spearman",
    "loo-spearman-no-special",
    "loo-kendall",
    "loo-kendall-no-special",
    "loo-sign",
    "morf",
    "lerf",
    "delta",
    "aopc",
    "insertion",
    "deletion",
)
SIDES = (OURS, "captum")
BAR = 2.2


def some_sentences(count: int) -> tuple[list[str], str]:
    """SST-2 dev sentences, or the demo sentences where the data are not at hand; and what they are."""
    try:
        data = load_dataset("sst2", limit=count)
        return data.texts, data.title
    except (LoopropError, OSError):
        texts = demo_sentences().texts[:count]
        return texts, f"{len(texts)} demo sentences (set LOOPROP_DATA for SST-2)"


def measure(team: Team, sizes: Sizes) -> list[Row]:
    """The ratio of the script's CPU time to ours, over blocks of sentences that take turns; and whether both say the
    same.
    """
    model = cases.embedded_model()
    texts, title = some_sentences(sizes.sentences)
    size = -(-len(texts) // sizes.blocks)
    parts = [
        cases.sentences(model, texts[start : start + size], f"block-{start}") for start in range(0, len(texts), size)
    ]
    warm = cases.sentences(model, texts[:2], "block-warm")
    asked = {"methods": list(METHODS), "metrics": list(METRICS)}
    row: Row = {"group": "evaluation", "texts": len(texts), "data": title, **asked, "bar": BAR}
    try:
        # A few texts run once more beforehand, to warm both sides up.
        turns = [
            {name: team.timed_answers(name, "evaluation", part, **asked) for name in SIDES} for part in (warm, *parts)
        ][1:]
        times = {name: [turn[name][1] for turn in turns] for name in SIDES}
        found = {name: [answer for turn in turns for answer in turn[name][0]] for name in SIDES}
    except SideError as error:
        return [{**row, "error": str(error)}]
    ratios = [theirs["cpu"] / ours["cpu"] for ours, theirs in zip(times[OURS], times["captum"], strict=True)]
    known = [i for i, method in enumerate(METHODS) if method != "random"]
    gaps = [np.abs(a[known] - b[known]) for a, b in zip(found[OURS], found["captum"], strict=True)]
    quartiles = [float(q) for q in np.quantile(ratios, [0.25, 0.75])]
    totals = {
        name: {kind: float(np.mean([t[kind] for t in times[name]])) for kind in ("cpu", "wall")} for name in times
    }
    row |= {"seconds_per_text": totals, "ratio": statistics.median(ratios), "spread": quartiles}
    row |= {
        "wall_ratio": totals["captum"]["wall"] / totals[OURS]["wall"],
        "median_difference": float(np.nanmedian(np.stack(gaps))),
    }
    row["largest_difference"] = float(np.nanmax(np.stack(gaps)))
    team.forget()
    return [{**row, "met": row["ratio"] >= BAR}]

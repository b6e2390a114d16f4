"""The tables of a run: what every method costs, and how near it comes."""

import math
from collections.abc import Sequence

import numpy as np

from looprop.metrics import bootstrap_mean
from looprop.running.parts import Row
from looprop.study import Grid, Measured, Run
from looprop.study.report.grids import Cells, name_of

from .measuring import GENERATED, GIVEN, MEASURES
from .methods import ABLATIONS

TITLES = {
    "r": "r to LOO",
    "spearman": "Spearman to LOO",
    "map": "mAP",
    "lds": "LDS",
    **{name: name.replace("@", " ") for name in MEASURES if "@" in name},
}


def context_tables(run: Run) -> list[Grid]:
    """One table for given answers, one for generated ones."""
    return [table for kind in (GIVEN, GENERATED) if (table := _table(run, kind)) is not None]


def values_of(rows: Sequence[Row], answer: str, method: str, measure: str) -> list[float]:
    """A measure of a method on all answers of a kind, NaN where it is undefined, in order of the examples."""
    own = [row for row in rows if row["answer"] == answer and row["method"] == method and not row["error"]]
    return [
        math.nan if row[measure] is None else float(row[measure]) for row in sorted(own, key=lambda r: r["example"])
    ]


def _table(run: Run, answer: str) -> Grid | None:
    rows = [row for row in run.rows if row["answer"] == answer]
    if not rows:
        return None
    examples = {row["example"]: row for row in rows}
    table: list[Cells] = []
    for method in dict.fromkeys(row["method"] for row in rows):
        cells: Cells = [name_of(method)]
        for measure in ("passes", "seconds"):
            cells.append(Measured(float(np.nanmean(values_of(rows, answer, method, measure))), digits=1))
        for measure in MEASURES:
            values = [value for value in values_of(rows, answer, method, measure) if not math.isnan(value)]
            if len(values) < 2:
                cells.append("–")
                continue
            cells.append(Measured.of(bootstrap_mean(values)))
        table.append(cells)
    stands_out = len({row["example"] for row in rows if row["map"] is not None and not math.isnan(row["map"])})
    sizes = (float(np.mean([row[name] for row in examples.values()])) for name in ("sentences", "positions"))
    note = (
        "{} answers with {:.1f} sentences and {:.0f} tokens in the mean; ".format(len(examples), *sizes)
        + "passes: sets of sentences that were asked for, or forward passes; seconds of one core. "
        f"mAP on the {stands_out} answers of which a sentence stands out by leave-one-out (Tukey's fence); "
        f"LDS on up to 64 random sets that are not among ContextCite's {ABLATIONS}, in bfloat16; "
        "drop k: what the log-probability loses when the best k go; recall k: of the sentences with the evidence. "
        "In brackets 95 % bootstrap intervals."
    )
    header = ["method", "passes", "seconds", *(TITLES[measure] for measure in MEASURES)]
    return Grid(f"{run.data_title}, answer {answer}, {run.model}", header, table, note)

"""The tables of a run on texts: the paper's four metrics, the others, and who beats whom."""

import math
from collections.abc import Sequence

from looprop.display.data import number
from looprop.evaluation.result import Evaluation
from looprop.evaluation.summary import notes_of
from looprop.metrics import get_metric
from looprop.naming import split_name
from looprop.study.claims import OF_TEXTS, PAPER_LAYERS, published
from looprop.study.kinds.texts.layers import first_layers, from_layer, layer_entropy, only_layer
from looprop.study.report.grids import Cells, Grid, Measured, name_of, title_of
from looprop.study.run import Run

LEADING = ("loo-r-no-special", *OF_TEXTS)
"""The columns of the first table."""

DECIDING = ("loo-r-no-special", "shapley-r-no-special", "naopc")
"""By these methods are compared in pairs."""
CORRELATION = ("-r", "-r-no-special")


def text_tables(run: Run) -> list[Grid]:
    """All tables of a run."""
    evaluation = run.evaluation()
    return [
        main_table(run, evaluation, evaluation.methods, run.experiment),
        other_metrics(evaluation),
        *(_who_is_closer(evaluation, metric) for metric in DECIDING if metric in evaluation.metrics),
    ]


def layer_tables(run: Run) -> list[Grid]:
    """All tables of a run layer by layer."""
    evaluation, every = run.evaluation(), range(1, run.layers + 1)
    methods = {
        "AttnLRP and CP-LRP": ["loo", "attnlrp", "cp-lrp"],
        "CP-LRP in the first k layers": [first_layers(k) for k in every],
        "CP-LRP from layer k on": [from_layer(k) for k in reversed(every)],
        "CP-LRP in one layer": [only_layer(k) for k in every],
    }
    note = "The entropy of attention rows as a share of its maximum, averaged over heads, rows and examples: 1 is flat."
    flat: list[Cells] = [
        [f"layer {k}", Measured(float(entropy), digits=3)] for k, entropy in enumerate(layer_entropy(run), 1)
    ]
    return [
        *(main_table(run, evaluation, own, title) for title, own in methods.items()),
        Grid("Mean attention entropy", ["layer", "entropy"], flat, note),
        other_metrics(evaluation),
    ]


def main_table(run: Run, evaluation: Evaluation, methods: Sequence[str], title: str) -> Grid:
    """The correlation without special tokens, then the paper's four metrics, ours beside the paper's."""
    shown = [metric for metric in LEADING if metric in evaluation.metrics]
    best = {metric: _best(evaluation, methods, metric) for metric in shown}
    rows: list[Cells] = []
    for method in methods:
        # The paper's plans by layer are not those of a model of another depth.
        other_depth = split_name(method)[0] == "lrp" and run.layers != PAPER_LAYERS
        paper = {} if other_depth else published(run.experiment, run.data, method)
        summary = evaluation[method]
        estimates = {metric: summary.metrics[metric] for metric in shown}
        cells = (Measured.of(e, paper=paper.get(m), best=best[m] == method) for m, e in estimates.items())
        counts = sorted({e.count for e in estimates.values()})
        fewest_to_most = " to ".join(str(count) for count in (counts[0], counts[-1])[: len(counts)])
        rows.append([name_of(method), *cells, fewest_to_most, number(summary.cost, signed=False)])
    note = (
        "n: examples; cost: forward passes per example; in brackets 95 % bootstrap intervals. "
        "The paper's numbers are those of its own models (BERT-base). "
        + " ".join(notes_of(evaluation.rows, evaluation.metrics))
    ).strip()
    metrics = [title_of(metric) for metric in shown]
    every = (pair for row in rows for pair in zip(metrics, row[1:], strict=False))
    printed = {name for name, cell in every if isinstance(cell, Measured) and cell.paper is not None}
    where = f"{title}: {run.data_title}, {run.model}"
    return Grid(where, ["method", *metrics, "n", "cost"], rows, note, frozenset(printed))


def _best(evaluation: Evaluation, methods: Sequence[str], metric: str) -> str | None:
    """The best of these methods; leave-one-out takes no part where it is itself the reference."""
    sign = 1 if get_metric(metric).higher_is_better else -1
    rivals = [m for m in methods if m not in get_metric(metric).needs]
    means = {m: sign * evaluation[m].metrics[metric].mean for m in rivals}
    defined = {m: mean for m, mean in means.items() if not math.isnan(mean)}
    return max(defined, key=lambda m: defined[m]) if defined else None


def other_metrics(evaluation: Evaluation) -> Grid:
    """The other metrics, and how long each method took."""
    others = [metric for metric in evaluation.metrics if metric not in LEADING]
    titles = [title_of(metric) for metric in others]
    header = ["method", *titles, "sign flips", "undefined r", "errors", "warnings", "seconds"]
    rows: list[Cells] = []
    for one in evaluation.summary:
        flips = "–" if one.flipped is None else f"{100 * one.flipped:.0f} %"
        undefined = next((e.undefined for name, e in one.metrics.items() if name.endswith(CORRELATION)), 0)
        counts = map(str, (undefined, one.errors, one.notes))
        estimates = (Measured.of(one.metrics[metric]) for metric in others)
        rows.append([name_of(one.method), *estimates, flips, *counts, number(one.seconds, signed=False)])
    note = (
        "Sign flips: examples in which dividing both maps by their sums turns the sign of r. "
        "Warnings: examples with a completeness residual above 5 %, for instance."
    )
    return Grid("Other metrics, and time", header, rows, note)


def _who_is_closer(evaluation: Evaluation, metric: str) -> Grid:
    rows: list[Cells] = [
        [
            name_of(c.better),
            name_of(c.worse),
            Measured(c.test.difference, digits=3),
            f"{c.test.p_value:.2g}",
            f"{c.adjusted_p:.2g}",
            f"{c.test.wins} / {c.test.ties} / {c.test.losses}",
        ]
        for c in evaluation.compare(metric)
    ]
    note = "Two-sided sign-flip tests over examples; adjusted by Holm's method for all pairs."
    header = ["better", "worse", "difference", "p", "adjusted p", "wins / ties / losses"]
    return Grid(f"Who is ahead, by {title_of(metric)}", header, rows, note)

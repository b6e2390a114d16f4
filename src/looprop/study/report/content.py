"""What a report says: the tables of each experiment, from the rows of its run."""

import math
from collections.abc import Sequence

from looprop.display.data import number
from looprop.evaluation.result import Evaluation
from looprop.metrics import get_metric
from looprop.study.published import LAYERS, published
from looprop.study.report.grids import Cells, Grid, Number
from looprop.study.report.names import TITLES, name_of
from looprop.study.report.network_tables import bilinear_grids, softmax_grids
from looprop.study.reproducing import Run
from looprop.study.verdicts import layer_entropy

SHOWN = ("loo-r", "lerf", "morf", "delta")


def grids(run: Run) -> list[Grid]:
    """The tables of a run."""
    make = {"bilinear": bilinear_grids, "softmax": softmax_grids, "layers": _layers}.get(run.experiment, _texts)
    return make(run)


def _texts(run: Run) -> list[Grid]:
    evaluation = run.evaluation()
    methods = evaluation.methods
    return [
        _main(run, evaluation, methods, f"{run.experiment}: {_where(run)}"),
        _more(evaluation, methods),
        _beats(evaluation),
    ]


def _layers(run: Run) -> list[Grid]:
    evaluation, layers = run.evaluation(), int(run.manifest["layers"])
    every = range(1, layers + 1)
    kinds = {
        "CP-LRP in the first k layers": [f"lrp[cp=:{k}]" for k in every],
        "CP-LRP from layer k on": [f"lrp[cp={k}:]" for k in reversed(every)],
        "CP-LRP in one layer": [f"lrp[cp={k}]" for k in every],
    }
    whole = ["loo", "attnlrp", "cp-lrp"]
    found = [_main(run, evaluation, whole, f"AttnLRP and CP-LRP: {_where(run)}")]
    found += [_main(run, evaluation, methods, f"{title}: {_where(run)}") for title, methods in kinds.items()]
    entropy = layer_entropy(run)
    rows: list[Cells] = [[f"layer {k}", Number(float(entropy[k - 1]), digits=3)] for k in every]
    note = "The entropy of attention rows as a share of its maximum, averaged over heads, rows and examples: 1 is flat."
    return [
        *found,
        Grid("Mean attention entropy", ["layer", "entropy"], rows, note),
        _more(evaluation, evaluation.methods),
    ]


def _where(run: Run) -> str:
    return f"{run.manifest['data_title']}, {run.manifest['model']}"


def _main(run: Run, evaluation: Evaluation, methods: Sequence[str], title: str) -> Grid:
    """The paper's four metrics, ours beside the paper's."""
    comparable = run.experiment != "layers" or run.manifest["layers"] == LAYERS
    shown = [metric for metric in SHOWN if metric in evaluation.metrics]
    rows: list[Cells] = []
    for method in methods:
        paper = (
            published(run.experiment, run.manifest["data"], method)
            if comparable or not method.startswith("lrp[")
            else {}
        )
        estimates = evaluation[method].metrics
        rows.append([name_of(method)])
        for metric in shown:
            e = estimates[metric]
            rows[-1].append(
                Number(
                    e.mean, e.low, e.high, e.count, paper.get(metric), best=_best(evaluation, methods, metric) == method
                )
            )
        counts = sorted({estimates[metric].count for metric in shown})
        rows[-1].append(" to ".join(str(count) for count in (counts[0], counts[-1])[: len(counts)]))
        rows[-1].append(number(evaluation[method].cost, signed=False))
    note = (
        "n: examples; cost: forward passes per example; in brackets 95 % bootstrap intervals. "
        "The paper's numbers are those of its own models (BERT-base)."
    )
    metrics = [TITLES.get(metric, metric) for metric in shown]
    printed = any(isinstance(cell, Number) and cell.paper is not None for row in rows for cell in row)
    return Grid(title, ["method", *metrics, "n", "cost"], rows, note, frozenset(metrics if printed else ()))


def _best(evaluation: Evaluation, methods: Sequence[str], metric: str) -> str | None:
    sign = 1 if get_metric(metric).higher_is_better else -1
    means = {
        m: sign * evaluation[m].metrics[metric].mean
        for m in methods
        if m != "loo" or "loo" not in get_metric(metric).needs
    }
    defined = {m: mean for m, mean in means.items() if not math.isnan(mean)}
    return max(defined, key=lambda m: defined[m]) if defined else None


def _more(evaluation: Evaluation, methods: Sequence[str]) -> Grid:
    """The other metrics, and how long each method took."""
    others = [metric for metric in evaluation.metrics if metric not in SHOWN]
    header = [
        "method",
        *(TITLES.get(m, m) for m in others),
        "sign flips",
        "undefined r",
        "errors",
        "warnings",
        "seconds",
    ]
    rows: list[Cells] = []
    for method in methods:
        s = evaluation[method]
        cells: Cells = [name_of(method)]
        cells += [Number(e.mean, e.low, e.high, e.count) for e in (s.metrics[m] for m in others)]
        flips = "–" if s.flipped is None else f"{100 * s.flipped:.0f} %"
        counts = [str(s.metrics["loo-r"].undefined), str(s.errors), str(s.notes)]
        rows.append([*cells, flips, *counts, number(s.seconds, signed=False)])
    note = (
        "Sign flips: examples in which dividing both maps by their sums turns the sign of r. "
        "Warnings: examples with a completeness residual above 5 %, for instance."
    )
    return Grid("Other metrics, and time", header, rows, note)


def _beats(evaluation: Evaluation) -> Grid:
    rows: list[Cells] = [
        [
            name_of(c.better),
            name_of(c.worse),
            Number(c.test.difference, digits=3),
            f"{c.test.p_value:.2g}",
            f"{c.adjusted_p:.2g}",
            f"{c.test.wins} / {c.test.ties} / {c.test.losses}",
        ]
        for c in evaluation.compare("loo-r")
    ]
    note = "Two-sided sign-flip tests over examples; adjusted by Holm's method for all pairs."
    header = ["better", "worse", "difference", "p", "adjusted p", "wins / ties / losses"]
    return Grid("Who is closer to leave-one-out (LOO r)", header, rows, note)

"""An evaluation as a page: which method is best and by how much, what the numbers mean, removal curves, and the
examples on which methods disagree. The table is one description of columns and cells, drawn by pages, notebooks and
terminals.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from looprop.display import (
    Cell,
    Column,
    Line,
    card,
    escape,
    estimated,
    fragment,
    line_chart,
    meanings,
    number,
    page,
    paragraph,
    table,
)
from looprop.evaluation.examples import disagreements, examples_html
from looprop.evaluation.summary import MethodSummary, by_method
from looprop.metrics import Metric
from looprop.running.parts import Row

if TYPE_CHECKING:
    from looprop.evaluation.result import Evaluation

HEADINGS = {
    "loo-r": "r to LOO, all",
    "loo-r-no-special": "r to LOO",
    "loo-r-paper": "r normalised, all",
    "loo-r-paper-no-special": "r normalised",
    "shapley-r": "r to Shapley, all",
    "shapley-r-no-special": "r to Shapley",
}
"""Where a table has less room than for the title. All: of all tokens, special ones too."""
WITH_BARS = ("loo-r-no-special", "loo-r-paper", "shapley-r-no-special", "delta", "naopc")

MANY = 5
"""More metrics than those of the paper."""

POINTS = 21
"""From nothing removed to everything but one feature."""
NAMED = 5
"""So many of the best methods have a colour of their own, beside leave-one-out and random scores."""
CURVES = {
    "morf_curve": ("Most relevant first", "mean of the target: the lower the better, what matters went early"),
    "lerf_curve": ("Least relevant first", "mean of the target: the higher the better, what matters stayed"),
}

SummaryTable = tuple[list[Column], list[list[str | Cell]]]
"""Columns and rows, as `looprop.display.table` and `looprop.display.terminal.data_table` take them."""


def summary_table(evaluation: "Evaluation") -> SummaryTable:
    """A column for every metric, with the best method marked (a reference has no part in what is measured against it),
    then time, cost and, where a method failed, on how many examples.
    """
    metrics, some_failed = evaluation.measures, bool(evaluation.failed)
    best = {metric.name: best_of(evaluation.summary, metric) for metric in metrics}
    # Many columns leave room for few bars.
    with_bars = {*evaluation.metrics[:1], *(WITH_BARS if len(metrics) <= MANY else ())}
    columns = [Column("method"), *(metric_column(metric, bars=metric.name in with_bars) for metric in metrics)]
    columns += [
        Column("ms", tip="milliseconds per example, as measured in this run", under="lower is better"),
        Column("cost", tip="forward passes per example, counted", under="lower is better"),
    ]
    columns += [Column("failed", tip="examples on which the method failed")] if some_failed else []
    rows: list[list[str | Cell]] = []
    for found in evaluation.by_agreement:
        means = [estimated(e, best=best[name] == found.method) for name, e in found.metrics.items()]
        spent = [Cell(value, text=number(value, signed=False)) for value in (1000 * found.seconds, found.cost)]
        failed = [Cell(found.errors, text=str(found.errors))] if some_failed else []
        rows.append([found.method, *means, *spent, *failed])
    return columns, rows


def metric_column(metric: Metric, *, bars: bool = False) -> Column:
    """The column of a metric: its short name, which way is better, what it is."""
    better = "higher is better" if metric.higher_is_better else "lower is better"
    return Column(HEADINGS.get(metric.name, metric.label), bars=bars, tip=metric.description, under=better)


def best_of(summary: Sequence[MethodSummary], metric: Metric) -> str | None:
    """The best method by a metric, among those that are not its reference."""
    sign = 1 if metric.higher_is_better else -1
    known = [s for s in summary if s.metrics[metric.name].count and s.method not in metric.needs]
    return max(known, key=lambda s: sign * s.metrics[metric.name].mean).method if known else None


def summary_html(evaluation: "Evaluation") -> str:
    """The table as HTML, with intervals, bars for the correlations and for delta, and what there is to say of it."""
    lines = [found.method for found in evaluation.by_agreement]
    shown = table(*evaluation.table, lines=lines)
    return f'<div class="wide-tables">{shown}</div>' + "".join(map(paragraph, evaluation.notes))


def meanings_html(evaluation: "Evaluation") -> str:
    """What each column means, and which way is better."""
    said = []
    for metric in evaluation.measures:
        better = "Higher is better." if metric.higher_is_better else "Lower is better."
        description = f"{metric.description[:1].upper()}{metric.description[1:]}."
        said.append((HEADINGS.get(metric.name, metric.label), f"{description} {better}"))
    inside = f"{100 * evaluation.confidence:g} %"
    said.append(("[low, high]", f"The {inside} interval of the mean over examples (bootstrap)."))
    said.append(("ms, cost", "Milliseconds and forward passes an example takes, as measured in this run."))
    return meanings(said)


def headline(evaluation: "Evaluation") -> str:
    """Who is best by the first metric, in words."""
    if not evaluation.metrics:
        return "Methods"
    metric = evaluation.measures[0]
    name = best_of(evaluation.summary, metric)
    if name is None:
        return f"Methods by {metric.label}"
    found = evaluation[name].metrics[metric.name]
    interval = f"{found.mean:.2f} [{found.low:.2f}, {found.high:.2f}]".replace("-", "−")
    return f"{name} comes out best by {metric.label}: {interval}"


def curves_html(evaluation: "Evaluation") -> str:
    """Removal curves of all methods, where the rows hold them."""
    order = [found.method for found in evaluation.by_agreement]
    charts = ""
    for name, (title, up) in CURVES.items():
        if lines := mean_curves(evaluation.rows, name, order):
            charts += line_chart(title, lines, across="share of features removed", up=up)
    return f'<div class="charts">{charts}</div>' if charts else ""


def mean_curves(rows: Sequence[Row], name: str, order: Sequence[str]) -> list[Line]:
    """One line per method that has such curves. name: "morf_curve" or "lerf_curve"; order: methods, the best first.

    Inputs differ in length: the share of features removed is what they have in common, and between two steps the line
    is straight.
    """
    share = np.linspace(0.0, 1.0, POINTS)
    found = by_method([row for row in rows if not row["error"] and len(row.get(name, ()))])
    strong = {*[method for method in order if method in found][:NAMED], "loo", "random"}
    return [
        Line(
            method,
            share.tolist(),
            np.mean([_curve(row, name, share) for row in found[method]], axis=0).tolist(),
            strong=method in strong,
        )
        for method in order
        if method in found
    ]


def _curve(row: Row, name: str, share: NDArray[np.float64]) -> NDArray[np.float64]:
    values = [row["output"], *row[name]]  # after 0, 1, ... features
    removed = np.arange(len(values)) / max(1, len(values) - 1)
    return np.asarray(np.interp(share, removed, values), dtype=np.float64)


def evaluation_page(evaluation: "Evaluation", *, title: str = "", subtitle: str = "") -> str:
    """The whole page."""
    model = evaluation.about.get("model")
    body = card(summary_html(evaluation) + meanings_html(evaluation), title=headline(evaluation))
    if curves := curves_html(evaluation):
        hint = paragraph("Names stand at the ends of lines; point at a line, or at a row above, to see it alone.")
        body += card(curves + hint, title="What happens while features are removed")
    order = disagreements(evaluation.rows, evaluation.metrics)
    by = metric_column(evaluation.measures[0]).name if evaluation.metrics else ""
    told = examples_html(evaluation.frames, evaluation.rows, order, by=by)
    body += card(told, title="Where methods disagree most") if told else ""
    below = subtitle or (f"measured on {model}" if isinstance(model, str) else "")
    return page(title or evaluation.title, body, subtitle=below, words="words" in told, scales=bool(told))


def evaluation_fragment(evaluation: "Evaluation") -> str:
    """For a notebook."""
    body = f"<h2>{escape(evaluation.title)}: {escape(headline(evaluation))}</h2>" + summary_html(evaluation)
    return fragment(body + meanings_html(evaluation), plain=repr(evaluation))

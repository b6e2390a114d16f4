"""The summary of an evaluation as a table, the best method by the first metric first: one description of columns and
cells, drawn by pages, notebooks and terminals.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from looprop.display import Cell, Column, card, escape, estimated, fragment, page, paragraph, table, two_decimals
from looprop.evaluation.summary import MethodSummary, is_reference
from looprop.metrics import Metric, get_metric

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

SummaryTable = tuple[list[Column], list[list[str | Cell]]]
"""Columns and rows, as `looprop.display.table` and `looprop.display.terminal.data_table` take them."""


def summary_table(evaluation: "Evaluation") -> SummaryTable:
    """A column for every metric, with the best method marked (a reference has no part in what is measured against it),
    then time, cost and, where a method failed, on how many examples.
    """
    metrics, some_failed = {name: get_metric(name) for name in evaluation.metrics}, bool(evaluation.failed)
    best = {name: _best(evaluation.summary, metric) for name, metric in metrics.items()}
    columns = [Column("method")]
    # Many columns leave room for few bars.
    with_bars = {*evaluation.metrics[:1], *(WITH_BARS if len(metrics) <= MANY else ())}
    columns += [
        Column(HEADINGS.get(name, metric.label), bars=name in with_bars, tip=metric.description)
        for name, metric in metrics.items()
    ]
    columns += [Column("ms", tip="milliseconds per example"), Column("cost", tip="forward passes per example")]
    columns += [Column("failed", tip="examples on which the method failed")] if some_failed else []
    rows: list[list[str | Cell]] = []
    for found in evaluation.by_agreement:
        means = [
            estimated(e.mean, e.low, e.high, count=e.count, undefined=e.undefined, best=best[name] == found.method)
            for name, e in found.metrics.items()
        ]
        spent = [Cell(value, text=two_decimals(value)) for value in (1000 * found.seconds, found.cost)]
        failed = [Cell(found.errors, text=str(found.errors))] if some_failed else []
        rows.append([found.method, *means, *spent, *failed])
    return columns, rows


def _best(summary: Sequence[MethodSummary], metric: Metric) -> str | None:
    sign = 1 if metric.higher_is_better else -1
    known = [s for s in summary if s.metrics[metric.name].count and not is_reference(s.method, metric)]
    return max(known, key=lambda s: sign * s.metrics[metric.name].mean).method if known else None


def summary_html(evaluation: "Evaluation") -> str:
    """The table as HTML, with bars and intervals for the correlations and for delta, and what there is to say of it."""
    return table(*evaluation.table) + "".join(map(paragraph, evaluation.notes))


def evaluation_page(evaluation: "Evaluation") -> str:
    """The whole page."""
    model = evaluation.about.get("model")
    first = get_metric(evaluation.metrics[0]).label if evaluation.metrics else ""
    title = f"Methods by {first}, the best first" if first else "Methods"
    body = card(summary_html(evaluation), title=title)
    return page(evaluation.title, body, subtitle=model if isinstance(model, str) else "")


def evaluation_fragment(evaluation: "Evaluation") -> str:
    """For a notebook."""
    return fragment(f"<h2>{escape(evaluation.title)}</h2>" + summary_html(evaluation))

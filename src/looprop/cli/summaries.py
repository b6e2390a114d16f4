"""The summary of an evaluation, in the terminal and on a page: the method closest to leave-one-out first."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from looprop.cli.shell import output, say
from looprop.errors import InputError

if TYPE_CHECKING:
    from looprop.evaluation.result import Evaluation
    from looprop.evaluation.summary import MethodSummary

HEADINGS = {"loo-r": "LOO r", "loo-r-no-special": "no special", "loo-r-paper": "LOO r", "morf": "MoRF", "lerf": "LeRF"}


def counting(advance: Callable[[str], None]) -> Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]:
    """An engine of one process that says when an example is done."""

    def run(work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            yield work(item)
            advance("")

    return run


def show_summary(result: "Evaluation", *, no_color: bool) -> None:
    """The table."""
    from looprop.display.terminal import table

    columns = ["method", *(HEADINGS.get(name, name) for name in result.metrics), "ms", "cost"]
    rows = []
    for found in by_agreement(result):
        means = [two_decimals(found.metrics[name].mean) for name in result.metrics]
        rows.append([found.method, *means, two_decimals(1000 * found.seconds), two_decimals(found.cost)])
    console = output(no_color=no_color)
    console.print(result.title, style="bold", markup=False)
    console.print(table(columns, rows, numeric=frozenset(range(1, len(columns)))))


def check_success(result: "Evaluation") -> None:
    """Says which methods failed, and raises where none was measured on any example."""
    failed = [f"{found.method} ({found.errors})" for found in result.summary if found.errors]
    if not failed:
        return
    first = next(row["error"] for row in result.rows if row["error"])
    if all(row["error"] for row in result.rows):
        raise InputError(f"no method could be measured on any example; the first error: {first}")
    say(f"looprop: warning: failed on some examples: {', '.join(failed)}; the first error: {first}")


def two_decimals(value: float) -> str:
    """A number of the table; a dash where there is none.

    >>> two_decimals(-0.125), two_decimals(float("nan"))
    ('−0.12', '–')
    """
    return "–" if math.isnan(value) else f"{value:.2f}".replace("-", "−")


def by_agreement(result: "Evaluation") -> "list[MethodSummary]":
    """Methods by their first metric, best first; undefined ones last."""
    from looprop.metrics import get_metric

    name = result.metrics[0]
    sign = -1.0 if get_metric(name).higher_is_better else 1.0
    return sorted(result.summary, key=lambda s: sign * s.metrics[name].mean if s.metrics[name].count else math.inf)


def summary_html(result: "Evaluation") -> str:
    """The same as an HTML table, with bars and intervals for the correlations and for delta."""
    from looprop.display.data import number
    from looprop.display.tables import Cell, Column, table
    from looprop.metrics import get_metric

    columns = [Column("method")]
    columns += [
        Column(
            HEADINGS.get(name, name), bars=name in ("loo-r", "loo-r-paper", "delta"), tip=get_metric(name).description
        )
        for name in result.metrics
    ]
    columns += [Column("ms", tip="milliseconds per example"), Column("cost", tip="forward passes per example")]
    rows: list[list[str | Cell]] = []
    for found in by_agreement(result):
        cells: list[str | Cell] = [found.method]
        for name in result.metrics:
            e = found.metrics[name]
            interval = f"{number(e.low)} to {number(e.high)}, n = {e.count}"
            cells.append(Cell(e.mean, e.low, e.high, text=two_decimals(e.mean), tip=interval))
        milliseconds = 1000 * found.seconds
        rows.append(
            [
                *cells,
                Cell(milliseconds, text=two_decimals(milliseconds)),
                Cell(found.cost, text=two_decimals(found.cost)),
            ]
        )
    return table(columns, rows)

"""`looprop demo`: the main job on 24 sentences, with every method there is: a table and one page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from looprop.cli.arguments import check_place
from looprop.cli.explaining import load_bench
from looprop.cli.options import Debug, Model, NoColor
from looprop.cli.shell import command, progress, say
from looprop.cli.summaries import check_success, counting, show_summary, summary_html
from looprop.methods.names import CATALOGUE

if TYPE_CHECKING:
    from looprop.evaluation.result import Evaluation
    from looprop.explanation import Explanations
    from looprop.inputs.examples import Dataset
    from looprop.workbench import Workbench

METRICS = ("loo-r", "loo-r-no-special", "morf", "lerf", "delta")
FOOTER = (
    "LOO r: Pearson's correlation of a method's scores with exact leave-one-out, mean over sentences; beside it "
    "without [CLS] and [SEP]. "
    "MoRF and LeRF: the mean logit while the most and the least relevant tokens are removed first; delta is their "
    "difference. "
    "Cost in forward passes per sentence."
)


@command
def demo(
    html: Annotated[Path, typer.Option(help="Where the page goes.", metavar="FILE")] = Path("looprop-demo.html"),
    model: Model = None,
    no_color: NoColor = False,
    debug: Debug = False,
) -> None:
    """Explain 24 sentences with every method: a table and a page."""
    check_place(html, ".html")
    methods = [entry.example or entry.name for entry in CATALOGUE.values()]
    with progress("loading the model"):
        bench = load_bench(model)
    from looprop.evaluation.evaluate import evaluate
    from looprop.files import write_whole
    from looprop.inputs.demo import demo_sentences

    data = demo_sentences()
    with progress("explaining and measuring", len(data)) as advance:
        result = evaluate(bench, data, methods=methods, metrics=METRICS, engine=counting(advance))
    check_success(result)
    write_whole(html, demo_page(bench, data, result).encode())
    show_summary(result, no_color=no_color)
    say(f"wrote {html}")


def demo_page(bench: "Workbench", data: "Dataset", result: "Evaluation") -> str:
    """The table, and a card per sentence with all methods below each other."""
    from looprop.display.html import card, facts, page
    from looprop.display.strips import comparison

    body = card(summary_html(result), title="All methods on all sentences")
    for example, explanations in zip(data, from_rows(bench, data, result), strict=True):
        for views in explanations.views():
            first = explanations[0]
            about = facts(
                [("kind", example.id.rpartition("-")[0]), ("predicted", first.label), ("logit", f"{first.output:.2f}")]
            )
            body += card(about + comparison(views), title=example.text)
    subtitle = f"{bench.adapter.name}: which of them can you trust?"
    return page(f"Every method on {len(data)} sentences", body, subtitle=subtitle, words=True, footer=FOOTER)


def from_rows(bench: "Workbench", data: "Dataset", result: "Evaluation") -> "list[Explanations]":
    """The explanations that an evaluation has measured: it keeps their scores; everything else is the same for all
    methods.
    """
    from dataclasses import replace

    import numpy as np

    from looprop.explanation import Explanations

    found = []
    for example in data:
        frame = bench.explain(example.text, "random", truncation=True)
        rows = [row for row in result.rows if row["example"] == example.id and not row["error"]]
        found.append(
            Explanations(
                replace(
                    frame,
                    method=row["method"],
                    scores=np.array(row["scores"]),
                    cost=row["cost"],
                    seconds=row["seconds"],
                    options={},
                )
                for row in rows
            )
        )
    return found

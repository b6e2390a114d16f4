"""The examples of an evaluation one by one: what every method said of each text, on one page with the summary."""

from dataclasses import replace

import numpy as np

from looprop.display import card, comparison, facts, page
from looprop.evaluation.page import summary_html
from looprop.evaluation.result import Evaluation
from looprop.explanation import Explanations
from looprop.inputs.examples import Dataset
from looprop.workbench import Workbench

FOOTER = (
    "r to LOO: Pearson's correlation of a method's scores with exact leave-one-out, without [CLS] and [SEP], mean over "
    "sentences; beside it of all tokens. "
    "MoRF and LeRF: the mean logit while the most and the least relevant tokens are removed first; delta is their "
    "difference. "
    "Cost in forward passes per sentence."
)


def measured_explanations(m: Workbench, data: Dataset, evaluation: Evaluation) -> list[Explanations]:
    """The explanations that an evaluation has measured, text by text: it keeps their scores; everything else is the
    same for all methods.
    """
    found = []
    for example in data:
        frame = m.explain(example.text, "random", truncation=True)
        rows = [row for row in evaluation.rows if row["example"] == example.id and not row["error"]]
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


def gallery_page(m: Workbench, data: Dataset, evaluation: Evaluation) -> str:
    """The table of methods, and a card per text with all methods below each other."""
    body = card(summary_html(evaluation), title="All methods on all sentences")
    for example, explanations in zip(data, measured_explanations(m, data, evaluation), strict=True):
        for views in explanations.views():
            first = explanations[0]
            about = [
                ("kind", example.id.rpartition("-")[0]),
                ("predicted", first.label),
                ("logit", f"{first.output:.2f}"),
            ]
            shown = facts((name, value) for name, value in about if value) + comparison(views)
            body += card(shown, title=example.text)
    return page(
        f"Every method on {len(data)} sentences",
        body,
        subtitle=f"{m.adapter.name}: which of them can you trust?",
        words=True,
        footer=FOOTER,
    )

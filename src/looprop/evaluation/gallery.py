"""The examples of an evaluation one by one: what every method said of each text, on one page with the summary."""

from dataclasses import replace

from looprop.evaluation.examples import frame_of, said_of
from looprop.evaluation.page import evaluation_page
from looprop.evaluation.result import Evaluation
from looprop.inputs.examples import Dataset
from looprop.result.explanations import Explanations
from looprop.workbench import Workbench


def measured_explanations(m: Workbench, data: Dataset, evaluation: Evaluation) -> list[Explanations]:
    """The explanations that an evaluation has measured, text by text: it keeps their scores; everything else is the
    same for all methods.
    """
    found = []
    for example in data:
        frame = frame_of(m.explain(example.text, "random", truncation=True))
        found.append(said_of(frame, [row for row in evaluation.rows if row["example"] == example.id]))
    return found


def gallery_page(m: Workbench, data: Dataset, evaluation: Evaluation) -> str:
    """The page of an evaluation with all of its texts, those first on which methods disagree most."""
    frames = {example.id: frame_of(m.explain(example.text, "random", truncation=True)) for example in data}
    return evaluation_page(
        replace(evaluation, frames=frames),
        title=f"Every method on {len(data)} sentences",
        subtitle=f"{m.adapter.name}: which of them can you trust?",
    )

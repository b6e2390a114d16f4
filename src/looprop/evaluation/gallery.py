"""The examples of an evaluation one by one: what every method said of each text, on one page with the summary."""

from dataclasses import replace

from looprop.evaluation.examples import said_of
from looprop.evaluation.page import evaluation_page
from looprop.evaluation.result import Evaluation
from looprop.explained import frame_of
from looprop.inputs.examples import Dataset
from looprop.result.explanation import Explanation
from looprop.result.explanations import Explanations
from looprop.workbench import Workbench


def measured_explanations(m: Workbench, data: Dataset, evaluation: Evaluation) -> list[Explanations]:
    """The explanations that an evaluation has measured, text by text: it keeps their scores; everything else is the
    same for all methods.
    """
    frames = _frames(m, data, evaluation)
    return [said_of(f, [row for row in evaluation.rows if row["example"] == name]) for name, f in frames.items()]


def gallery_page(m: Workbench, data: Dataset, evaluation: Evaluation) -> str:
    """The page of an evaluation with all of its texts, those first on which methods disagree most."""
    return evaluation_page(
        replace(evaluation, frames=_frames(m, data, evaluation)),
        title=f"Every method on {len(data)} sentences",
        subtitle=f"{m.adapter.name}: which of them can you trust?",
    )


def _frames(m: Workbench, data: Dataset, evaluation: Evaluation) -> dict[str, Explanation]:
    """The frames of all texts; those that the evaluation has kept are not made again."""
    kept = evaluation.frames
    return {e.id: kept.get(e.id) or frame_of(m.subject(e.text, truncation=True)) for e in data}

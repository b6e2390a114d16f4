"""Methods measured on data: one example, many examples, their summary, its tables and pages.

The verb itself is `looprop.evaluate`.
"""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.evaluation.example import Task, evaluate_example
    from looprop.evaluation.gallery import gallery_page, measured_explanations
    from looprop.evaluation.known_shares import KnownShapley, known_shapley
    from looprop.evaluation.models import ModelEvaluations
    from looprop.evaluation.result import Evaluation
    from looprop.evaluation.setup import METRICS, Setup
    from looprop.evaluation.summary import MethodSummary

# Imported when first used, so that a saved evaluation can be read without torch.
_HOMES = {
    "METRICS": "looprop.evaluation.setup",
    "Evaluation": "looprop.evaluation.result",
    "KnownShapley": "looprop.evaluation.known_shares",
    "MethodSummary": "looprop.evaluation.summary",
    "ModelEvaluations": "looprop.evaluation.models",
    "Setup": "looprop.evaluation.setup",
    "Task": "looprop.evaluation.example",
    "evaluate_example": "looprop.evaluation.example",
    "gallery_page": "looprop.evaluation.gallery",
    "known_shapley": "looprop.evaluation.known_shares",
    "measured_explanations": "looprop.evaluation.gallery",
}

__all__ = [
    "METRICS",
    "Evaluation",
    "KnownShapley",
    "MethodSummary",
    "ModelEvaluations",
    "Setup",
    "Task",
    "evaluate_example",
    "gallery_page",
    "known_shapley",
    "measured_explanations",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)

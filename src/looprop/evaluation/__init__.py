"""Methods measured on data: one example, many examples, their summary, its tables and pages.

The verb itself is `looprop.evaluate`.
"""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.evaluation.evaluate import gallery_page as gallery_page, measured_explanations as measured_explanations
    from looprop.evaluation.example import Task as Task, evaluate_example as evaluate_example
    from looprop.evaluation.references import KnownReference as KnownReference, known_shapley as known_shapley
    from looprop.evaluation.models import ModelEvaluations as ModelEvaluations
    from looprop.evaluation.result import Evaluation as Evaluation
    from looprop.evaluation.setup import METRICS as METRICS, Setup as Setup
    from looprop.evaluation.summary import MethodSummary as MethodSummary

# Imported when first used, so that a saved evaluation can be read without torch.
__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "evaluate": "gallery_page measured_explanations",
        "example": "Task evaluate_example",
        "references": "KnownReference known_shapley",
        "models": "ModelEvaluations",
        "result": "Evaluation",
        "setup": "METRICS Setup",
        "summary": "MethodSummary",
    },
)

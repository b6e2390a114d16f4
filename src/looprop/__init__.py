"""looprop: which explanation of a Transformer can you trust?

Explains any PyTorch Transformer by relevance propagation, gradients, attention or removal, and measures every
explanation against what the model really does when a feature is left out.
"""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

__version__ = "0.1.0"

if TYPE_CHECKING:
    from looprop.auditing.audit import audit
    from looprop.evaluation.evaluate import evaluate
    from looprop.models.answers import Answer
    from looprop.models.target_forms import Continuation, Contrast, Token
    from looprop.propagation.plan import Plan
    from looprop.propagation.tape import relevance
    from looprop.result.explanation import Explanation
    from looprop.result.explanations import Explanations
    from looprop.result.matrix import ExplanationMatrix
    from looprop.tensors import attribute
    from looprop.workbench import Workbench, load

# Imported when first used, so that `looprop --help` does not wait for torch.
_HOMES = {
    "Answer": "looprop.models.answers",
    "Continuation": "looprop.models.target_forms",
    "Contrast": "looprop.models.target_forms",
    "Explanation": "looprop.result.explanation",
    "ExplanationMatrix": "looprop.result.matrix",
    "Explanations": "looprop.result.explanations",
    "Interactions": "looprop.result.pairs",
    "Plan": "looprop.propagation.plan",
    "Token": "looprop.models.target_forms",
    "Workbench": "looprop.workbench",
    "attribute": "looprop.tensors",
    "audit": "looprop.auditing.audit",
    "evaluate": "looprop.evaluation.evaluate",
    "load": "looprop.workbench",
    "relevance": "looprop.propagation.tape",
}

__all__ = [
    "Answer",
    "Continuation",
    "Contrast",
    "Explanation",
    "ExplanationMatrix",
    "Explanations",
    "Interactions",
    "Plan",
    "Token",
    "Workbench",
    "attribute",
    "audit",
    "evaluate",
    "load",
    "relevance",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)

"""looprop: which explanation of a Transformer can you trust?

Explains any PyTorch Transformer by relevance propagation, gradients, attention or removal, and measures every
explanation against what the model really does when a feature is left out.
"""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

__version__ = "0.1.0"

if TYPE_CHECKING:
    from looprop.auditing.audit import audit as audit
    from looprop.evaluation.evaluate import evaluate as evaluate
    from looprop.models.answers import Answer as Answer
    from looprop.models.target import Continuation as Continuation, Contrast as Contrast, Token as Token
    from looprop.propagation.plan import Plan as Plan
    from looprop.propagation.tape import relevance as relevance
    from looprop.result.explanation import Explanation as Explanation, Explanations as Explanations
    from looprop.result.matrix import ExplanationMatrix as ExplanationMatrix
    from looprop.result.pairs import Interactions as Interactions
    from looprop.tensors import attribute as attribute
    from looprop.workbench import Workbench as Workbench, load as load

# Imported when first used, so that `looprop --help` does not wait for torch.
__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "auditing.audit": "audit",
        "evaluation.evaluate": "evaluate",
        "models.answers": "Answer",
        "models.target": "Continuation Contrast Token",
        "propagation.plan": "Plan",
        "propagation.tape": "relevance",
        "result.explanation": "Explanation Explanations",
        "result.matrix": "ExplanationMatrix",
        "result.pairs": "Interactions",
        "tensors": "attribute",
        "workbench": "Workbench load",
    },
)

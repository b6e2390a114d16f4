"""What looprop finds out, and its files: explanations, matrices of answers, interactions of pairs, checks.

A format of one's own is one function: `WRITERS[".txt"] = Writer("records", function)`.
"""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.result.base import Result as Result
    from looprop.result.check import Check as Check
    from looprop.result.codec import schema_of as schema_of
    from looprop.result.explanation import Explanation as Explanation
    from looprop.result.explanations import Explanations as Explanations
    from looprop.result.matrix import ExplanationMatrix as ExplanationMatrix
    from looprop.result.pairs import Interactions as Interactions
    from looprop.result.writers import WRITERS as WRITERS, Writer as Writer, endings as endings

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "base": "Result",
        "check": "Check",
        "codec": "schema_of",
        "explanation": "Explanation",
        "explanations": "Explanations",
        "matrix": "ExplanationMatrix",
        "pairs": "Interactions",
        "writers": "WRITERS Writer endings",
    },
)

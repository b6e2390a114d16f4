"""What looprop finds out, and its files: explanations, matrices of answers, interactions of pairs, checks.

A format of one's own is one function: `WRITERS[".txt"] = Writer("records", function)`.
"""

from typing import TYPE_CHECKING

from looprop.lazily import lazily

if TYPE_CHECKING:
    from looprop.result.base import Result
    from looprop.result.check import Check
    from looprop.result.codec import schema_of
    from looprop.result.explanation import Explanation
    from looprop.result.explanations import Explanations
    from looprop.result.matrix import ExplanationMatrix
    from looprop.result.pairs import Interactions
    from looprop.result.writers import WRITERS, Writer, endings

_HOMES = {
    "WRITERS": "looprop.result.writers",
    "Check": "looprop.result.check",
    "Explanation": "looprop.result.explanation",
    "ExplanationMatrix": "looprop.result.matrix",
    "Explanations": "looprop.result.explanations",
    "Interactions": "looprop.result.pairs",
    "Result": "looprop.result.base",
    "Writer": "looprop.result.writers",
    "endings": "looprop.result.writers",
    "schema_of": "looprop.result.codec",
}

__all__ = [
    "WRITERS",
    "Check",
    "Explanation",
    "ExplanationMatrix",
    "Explanations",
    "Interactions",
    "Result",
    "Writer",
    "endings",
    "schema_of",
]

__getattr__, __dir__ = lazily(__name__, _HOMES)

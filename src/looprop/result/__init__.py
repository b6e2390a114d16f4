"""What looprop finds out, and its files: explanations, matrices of answers, interactions of pairs, checks.

A format of one's own is one function: `WRITERS[".txt"] = Writer("records", function)`.
"""

from looprop.result.writers import Result, WRITERS, Writer, endings
from looprop.result.codec import schema_of
from looprop.result.explanation import Check, Explanation, Explanations
from looprop.result.matrix import ExplanationMatrix
from looprop.result.pairs import Interactions

__all__ = [
    "WRITERS", "Check", "Explanation", "ExplanationMatrix", "Explanations", "Interactions", "Result", "Writer",
    "endings", "schema_of",
]  # fmt: skip

"""Position and length of tokens as methods, so that they are measured like all others."""

from collections.abc import Sequence

from looprop.methods.base import Attribution, Method
from looprop.metrics import yardstick
from looprop.models.subject import Subject


class Yardstick(Method):
    """Scores that need no model: position or length of the tokens. Cost 0."""

    name = "yardstick"
    summary = "position or length of the tokens"

    def __init__(self, yardstick: str) -> None:
        self.yardstick = yardstick

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        """Independent of the model."""
        found = []
        for subject in subjects:
            encoded, firsts = subject.encoded, [group[0] for group in subject.features]
            names, special = [encoded.names[i] for i in firsts], [encoded.special[i] for i in firsts]
            found.append(Attribution(yardstick(self.yardstick, features=names, special=special), cost=0.0))
        return found

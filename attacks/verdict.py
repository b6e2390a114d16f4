"""What came of one case, and how a case says so."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["right", "refused", "wrong", "traceback", "hang"]
KINDS: tuple[Kind, ...] = ("right", "refused", "wrong", "traceback", "hang")
# A case that takes longer than this many seconds counts as hanging.
HANG = 20


@dataclass(frozen=True)
class Outcome:
    """What came of one case. note: what was wrong, or who refused. tries: how many times it tried (kills, texts).

    over: what was refused although the truth can be told; no finding, but listed.
    """

    kind: Kind
    note: str = ""
    tries: int = 1
    over: tuple[str, ...] = ()

    @property
    def finding(self) -> bool:
        """Whether somebody has to look at it."""
        return self.kind not in ("right", "refused")


class WrongError(Exception):
    """looprop's answer is not the truth."""


class HangError(BaseException):
    """A case took too long. No Exception, so that nothing on the way catches it."""

"""What a kind of experiment is: everything that looprop knows of it, in one class.

    specification --job--> tasks --work, one example at a time--> rows --claims, tables, picture--> report

A kind is one file (or folder) in kinds/, or a folder anywhere else, named like the kind, that holds an instance of its
class as `KIND`. Nothing else has to know of it: an experiment is a YAML file that names its kind.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from looprop.study.claims import JudgedClaim
from looprop.study.job import Job, Options
from looprop.study.report.grids import Grid
from looprop.study.run import Run
from looprop.study.spec import Spec

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Picture:
    """The figure of a report, and what it is called there."""

    title: str
    figure: "Figure"


class Kind(ABC):
    """One kind of experiment.

    case: the dataclass of one of the `cases` in its specifications; None for a kind that runs on `data`.
    evaluates: are its rows those of an `Evaluation`, with a summary of every method?
    claims_title: what the table of its claims is called.
    """

    case: ClassVar[type | None] = None
    evaluates: ClassVar[bool] = False
    claims_title: ClassVar[str] = "The paper's claims, tested on these numbers"

    def check(self, spec: Spec) -> None:  # noqa: B027 - most kinds have nothing to add
        """Raise if there is something in a specification that this kind cannot do."""

    @abstractmethod
    def job(self, spec: Spec, options: Options) -> Job:
        """What there is to do: the examples, and what computes the rows of one."""

    @abstractmethod
    def tables(self, run: Run) -> list[Grid]:
        """The tables of a report, from the rows of a run."""

    def claims(self, run: Run) -> list[JudgedClaim]:
        """What the paper claims about this, tested on the rows of a run."""
        return []

    def picture(self, runs: Sequence[Run]) -> Picture | None:
        """The figure of a report on one run, or on several together."""
        return None

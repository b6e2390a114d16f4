"""What a kind of experiment is, and the job that it makes of a specification: all that looprop knows of it.

    specification --job--> tasks --work, one example at a time--> rows --claims, tables, picture--> report

A kind is one file (or folder) in kinds/, or a folder anywhere else, named like the kind, that holds an instance of its
class as `KIND`. Nothing else has to know of it: an experiment is a YAML file that names its kind.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from looprop.errors import DataError
from looprop.evaluation.example import Task
from looprop.running.manifest import NUMERICS, compare
from looprop.running.missing import Work
from looprop.study.claims import JudgedClaim
from looprop.study.report.grids import Grid
from looprop.study.run import Run
from looprop.study.spec import Spec

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Options:
    """What a caller may choose: model and data instead of the defaults, a subset, the seed that draws it.

    loo_from: a run folder whose leave-one-out is taken over. references: a file of Shapley values and leave-one-out to
        be taken over.
    """

    model: Any = None
    data: str | None = None
    limit: int | None = None
    seed: int = 0
    loo_from: Path | None = None
    references: Path | None = None

    def check_unused(self, *names: str, because: str) -> None:
        """Raise for an option that an experiment cannot take, with the reason."""
        for name in names:
            if getattr(self, name) is not None:
                raise DataError(f"{because}: it takes no {name}, got {getattr(self, name)!r}")


class Preparation(Protocol):
    """Makes what the tasks need in the run folder (trained networks), and gives what computes one task."""

    def __call__(self, folder: Path, *, progress: bool) -> Work: ...


@dataclass(frozen=True)
class About:
    """What a manifest says of a run beside its identity.

    data: the name; data_title: says which part of it. subset: were examples left out? layers: of a model on texts.
    """

    model: str
    data: str
    data_title: str
    subset: bool
    examples: int
    layers: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Entries of a manifest."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Job:
    """The examples of an experiment, and what computes them.

    identity: what the numbers depend on; a run folder is refused if it changed.
    limited: the identity with another limit, for jobs whose smaller subsets are parts of the larger; their runs can
        grow.
    """

    title: str
    tasks: Sequence[Task]
    prepare: Preparation
    identity: Mapping[str, Any]
    about: About
    limited: Callable[[int], Mapping[str, Any]] | None = None

    def grows(self, before: Mapping[str, Any]) -> bool:
        """Is this a run begun with that identity, of which more examples are now wanted?"""
        limit, wanted = before.get("limit"), self.identity.get("limit")
        if self.limited is None or limit is None or (wanted is not None and wanted <= limit):
            return False
        return not compare(before, {**self.limited(limit), "numerics": NUMERICS}).changed


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

"""What an experiment has to do, before anything is computed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from looprop.errors import DataError
from looprop.evaluation.example import Task
from looprop.running.identity import NUMERICS, compare
from looprop.running.missing import Work


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

    @property
    def known_as(self) -> dict[str, Any]:
        """The identity, with the version of looprop's own numbers."""
        return {**self.identity, "numerics": NUMERICS}

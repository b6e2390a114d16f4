"""What an experiment has to do, before anything is computed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from looprop.evaluation.example import Task
from looprop.evaluation.running import Work


class Preparation(Protocol):
    """Makes what the tasks need in the run folder (trained networks), and gives what computes one task."""

    def __call__(self, folder: Path, *, progress: bool) -> Work: ...


@dataclass(frozen=True)
class Job:
    """identity: what the numbers depend on; a run folder is refused if it changed. about: what else the manifest says."""

    title: str
    tasks: Sequence[Task]
    prepare: Preparation
    identity: Mapping[str, Any]
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    """What a caller may choose: model and data instead of the defaults, a subset, the seed that draws it."""

    model: Any = None
    data: str | None = None
    limit: int | None = None
    seed: int = 0

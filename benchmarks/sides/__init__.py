"""One file per library: its jobs by name. Each file is imported only in the environment of its library."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.exchange import Case


@dataclass(frozen=True)
class Job:
    """Something to be timed.

    run: does it once and returns its answer, one array per text. units: how many explanations, variants or steps that
        is.
    """

    run: Callable[[], Any]
    units: int = 1


MakeJob = Callable[..., Job]
Jobs = Mapping[str, MakeJob]
"""Job makers by name: each takes a `Case` and keyword options."""

__all__ = ["Case", "Job", "Jobs", "MakeJob"]

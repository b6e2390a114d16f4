"""An audit on an engine of many processes: every rewrite, and the checks, wherever there is room."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from looprop.auditing.result import Attempt, Checks, Row
from looprop.auditing.rewrites.base import Rewrite
from looprop.errors import ClusterError, ShardError
from looprop.running.engines import Engine, Sharded, get_engine

CHECKS = "sanity checks"


class Bench(Protocol):
    """The model as it is, ready to be rewritten."""

    def attempt(self, rewrite: Rewrite) -> tuple[Attempt, list[Row]]:
        """Carry out one rewrite, prove it, and compare the explanations."""

    def checks(self, step: Callable[[str], None]) -> list[Checks]:
        """The sanity checks."""


@dataclass(frozen=True)
class Part:
    """One rewrite, or the checks."""

    id: str
    rewrite: Rewrite | None


class Desk:
    """Does parts of an audit. What they are compared with is made once per process, not sent."""

    def __init__(self, make: Callable[[], Bench]) -> None:
        self._make = make
        self._bench: Bench | None = None

    def __call__(self, part: Part) -> tuple[str, Any]:
        if self._bench is None:
            self._bench = self._make()
        return part.id, self._bench.checks(lambda what: None) if part.rewrite is None else self._bench.attempt(
            part.rewrite
        )

    def __getstate__(self) -> dict[str, Any]:
        return {"_make": self._make, "_bench": None}


def spread(
    engine: str | Engine,
    make: Callable[[], Bench],
    rewrites: Sequence[Rewrite],
    *,
    checks: bool,
    step: Callable[[str], None],
) -> tuple[list[tuple[Attempt, list[Row]]], list[Checks] | None, dict[str, Any] | None]:
    """Attempts in the order of the rewrites, the checks if wanted, and who computed. A rewrite that fails three times
    is refused.
    """
    parts = [*([Part(CHECKS, None)] if checks else []), *(Part(rewrite.name, rewrite) for rewrite in rewrites)]
    results = get_engine(engine)(Desk(make), parts)
    found: dict[str, Any] = {}
    try:
        for name, result in results:
            found[name] = result
            step(name)
    except ShardError as error:
        if CHECKS in error.failed:
            raise ClusterError(f"the sanity checks failed {error.attempts} times: {error.failed[CHECKS]}") from error
        summaries = {rewrite.name: rewrite.summary for rewrite in rewrites}
        found |= {
            name: (Attempt(name, summaries[name], status="refused", reason=said), [])
            for name, said in error.failed.items()
        }
    account = results.account() if isinstance(results, Sharded) else None
    return [found[rewrite.name] for rewrite in rewrites], found.get(CHECKS), account

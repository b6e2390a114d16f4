"""An audit on an engine of many processes: every rewrite, and the checks, wherever there is room.

What the rewrites are compared with, the `Original`, is not sent: each process makes its own once, from the same setup,
and so gets the same numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from looprop.auditing.original import SANITY_CHECKS, AuditSetup, Original, Step, Trial
from looprop.auditing.result import Attempt, Checks
from looprop.auditing.rewrites.base import Rewrite
from looprop.errors import ClusterError, ShardError
from looprop.running.engines import Engine, Sharded, get_engine


@dataclass(frozen=True)
class Part:
    """One rewrite, or the sanity checks. id: what an engine calls it when it fails."""

    id: str
    rewrite: Rewrite | None


@dataclass(frozen=True)
class Done:
    """One part, done: the trial of a rewrite, or the checks of every method."""

    id: str
    trial: Trial | None = None
    checks: tuple[Checks, ...] = ()


class Desk:
    """Does parts of an audit."""

    def __init__(self, setup: AuditSetup) -> None:
        self._setup = setup
        self._original: Original | None = None

    def __call__(self, part: Part) -> Done:
        if self._original is None:
            self._original = self._setup.original()
        if part.rewrite is None:
            return Done(part.id, checks=self._original.checks(lambda what: None))
        return Done(part.id, trial=self._original.attempt(part.rewrite))

    def __getstate__(self) -> dict[str, Any]:
        return {"_setup": self._setup, "_original": None}


@dataclass(frozen=True)
class Parts:
    """All parts of an audit, done.

    trials: in the order of the rewrites. checks: empty where none were wanted. account: who computed, where an engine
    says so.
    """

    trials: tuple[Trial, ...]
    checks: tuple[Checks, ...] = ()
    account: dict[str, Any] | None = None


def spread(engine: str | Engine, setup: AuditSetup, rewrites: Sequence[Rewrite], *, checks: bool, step: Step) -> Parts:
    """Compute all parts of an audit on an engine. A rewrite that fails three times is refused."""
    parts = [*([Part(SANITY_CHECKS, None)] if checks else []), *(Part(rewrite.name, rewrite) for rewrite in rewrites)]
    results = get_engine(engine)(Desk(setup), parts)
    trials: dict[str, Trial] = {}
    checked: tuple[Checks, ...] = ()
    try:
        for done in results:
            if done.trial is None:
                checked = done.checks
            else:
                trials[done.id] = done.trial
            step(done.id)
    except ShardError as error:
        if SANITY_CHECKS in error.failed:
            raise ClusterError(
                f"the sanity checks failed {error.attempts} times: {error.failed[SANITY_CHECKS]}"
            ) from error
        summaries = {rewrite.name: rewrite.summary for rewrite in rewrites}
        for name, said in error.failed.items():
            trials[name] = Trial(Attempt(name, summaries[name], status="refused", reason=said))
    account = results.account() if isinstance(results, Sharded) else None
    return Parts(tuple(trials[rewrite.name] for rewrite in rewrites), checked, account)

"""The parts of an audit, computed by an engine: every rewrite, and the sanity checks.

All parts are compared with the `Original`. In this process it is made once; it is not sent to others, where each
process makes its own from the same setup and so gets the same numbers.
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
    """One rewrite, or the sanity checks. id: its name, by which an engine reports a failure."""

    id: str
    rewrite: Rewrite | None


Done = Trial | tuple[Checks, ...]
"""A finished part: the trial of a rewrite, or the checks of every method."""


@dataclass
class Desk:
    """Computes parts of an audit."""

    setup: AuditSetup
    original: Original | None = None
    step: Step = lambda what: None

    def __call__(self, part: Part) -> Done:
        if self.original is None:
            self.original = self.setup.original()
        if part.rewrite is None:
            return self.original.checks(self.step)
        return self.original.attempt(part.rewrite)

    def __reduce__(self) -> tuple[Any, ...]:
        return Desk, (self.setup,)


def compute(
    engine: str | Engine,
    setup: AuditSetup,
    original: Original,
    rewrites: Sequence[Rewrite],
    *,
    checks: bool,
    step: Step,
) -> tuple[list[Trial], tuple[Checks, ...], dict[str, Any] | None]:
    """Compute all parts of an audit on an engine. A rewrite that fails again and again is refused.

    Trials come in the order of the rewrites; then the checks, none where none were wanted; then which machines
    computed, if the engine reports that.
    """
    parts = [*(Part(rewrite.name, rewrite) for rewrite in rewrites), *([Part(SANITY_CHECKS, None)] if checks else [])]
    here = engine == "local"
    desk = Desk(setup, original, step) if here else Desk(setup, original)
    # Elsewhere the checks begin first, since they take longest.
    results = get_engine(engine)(desk, parts if here else parts[::-1])
    trials: dict[str, Trial] = {}
    checked: tuple[Checks, ...] = ()
    following = iter([*(part.id for part in parts[1:]), ""])
    try:
        for done in results:
            if isinstance(done, Trial):
                trials[done.attempt.rewrite] = done
                step(next(following) if here else done.attempt.rewrite)
            else:
                checked = done
                if not here:
                    step(SANITY_CHECKS)
    except ShardError as error:
        if SANITY_CHECKS in error.failed:
            reason = f"the sanity checks failed {error.attempts} times: {error.failed[SANITY_CHECKS]}"
            raise ClusterError(reason) from error
        summaries = {rewrite.name: rewrite.summary for rewrite in rewrites}
        for name, reason in error.failed.items():
            trials[name] = Trial(Attempt(name, summaries[name], status="refused", reason=reason))
    account = results.account() if isinstance(results, Sharded) else None
    return [trials[rewrite.name] for rewrite in rewrites], checked, account

"""What a search found: the plan, how good it is on texts that chose nothing, and everything that was tried."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from looprop.errors import InputError
from looprop.files import write_whole
from looprop.metrics.statistics import Estimate
from looprop.propagation.plan_file import plan_text
from looprop.tuning.candidates import Candidate


@dataclass(frozen=True)
class Trial:
    """One candidate or standard method and its mean r on the texts that choose; error: why it has none."""

    what: str
    r: float
    error: str = ""


@dataclass(frozen=True)
class Tuning:
    """A search.

    chosen: the best candidate on one half of the texts. standard: the best standard method on the same half.
    tuned, usual: their mean r on the other half; gain: the mean of the differences there, with a bootstrap interval.
    standards, trials: all that was tried, with r on the first half. stopped: why the search ended.
    passes: what all of it cost, in forward passes.
    """

    chosen: Candidate
    standard: str
    tuned: Estimate
    usual: Estimate
    gain: Estimate
    standards: tuple[Trial, ...]
    trials: tuple[Trial, ...]
    stopped: str
    about: Mapping[str, Any]
    passes: float

    @property
    def gains(self) -> bool:
        """Is the plan better than the best standard method, beyond chance?"""
        return self.gain.low > 0

    @property
    def verdict(self) -> str:
        """One sentence."""
        span = f"{self.gain.mean:+.3f} ({self.gain.low:+.3f} to {self.gain.high:+.3f})"
        if self.gains:
            return f"gain over {self.standard}: {span}"
        return f"no gain over {self.standard}: {span}; use {self.standard}"

    def __str__(self) -> str:
        """A few lines for people."""
        where = f"r to {self.about['reference']} on {self.about['reported']} texts that chose nothing"
        cut = [self.about["truncated"]] if "truncated" in self.about else []
        return "\n".join(
            (
                f"plan: {self.chosen}",
                f"{where}: {_shown(self.tuned)}; {self.standard}: {_shown(self.usual)}",
                self.verdict,
                f"{len(self.trials)} plans tried on {self.about['chosen_on']} texts, {self.passes:.0f} forward passes; "
                f"{self.stopped}",
                *cut,
            )
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "schema": "looprop.tuning",
            "version": 1,
            "plan": self.chosen.plan.to_dict(),
            "readout": self.chosen.readout,
            "standard": self.standard,
            "verdict": self.verdict,
            "gains": self.gains,
            **{name: asdict(getattr(self, name)) for name in ("tuned", "usual", "gain")},
            "standards": [asdict(trial) for trial in self.standards],
            "trials": [asdict(trial) for trial in self.trials],
            "stopped": self.stopped,
            "passes": self.passes,
            "about": dict(self.about),
        }

    def save(self, path: str | Path) -> Path:
        """The plan as a file that `lrp[plan=FILE]` takes, with how it was found."""
        if Path(path).suffix.lower() not in (".yaml", ".yml"):
            raise InputError(f"a plan is saved as .yaml, got {str(path)!r}")
        found = {"verdict": self.verdict, "standard": self.standard, "passes": round(self.passes), **self.about}
        for name in ("tuned", "usual", "gain"):
            estimate = getattr(self, name)
            found[name] = {key: round(float(getattr(estimate, key)), 4) for key in ("mean", "low", "high")}
        return write_whole(path, plan_text(self.chosen.plan, self.chosen.readout, found).encode())


def _shown(estimate: Estimate) -> str:
    return f"{estimate.mean:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"

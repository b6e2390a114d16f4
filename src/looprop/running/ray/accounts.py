"""What each worker did: for the progress bar, and for the report."""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from looprop.running.ray.workers import ShardOutcome


@dataclass
class Tally:
    """What one worker did. place: its machine, device, threads and torch. busy: seconds it computed. cpu: of its
    processors. ended: when it died, or None.
    """

    place: dict[str, Any]
    began: float = field(default_factory=lambda: time.monotonic())
    shards: int = 0
    examples: int = 0
    cost: float = 0.0
    busy: float = 0.0
    cpu: float = 0.0
    ended: float | None = None

    @property
    def speed(self) -> float | None:
        """Cost per second, once something is known."""
        return self.cost / self.busy if self.busy > 0 else None

    def present(self, now: float) -> float:
        """Seconds from its first readiness to its end, or until now."""
        return max((self.ended or now) - self.began, 1e-9)

    def enter(self, cost: float, outcome: ShardOutcome) -> None:
        """A shard came back."""
        self.shards += 1
        self.examples += len(outcome.results)
        self.cost += cost
        self.busy += outcome.seconds
        self.cpu += outcome.cpu

    def to_dict(self, now: float) -> dict[str, Any]:
        """Plain data for the manifest."""
        seconds = {"busy": self.busy, "cpu": self.cpu, "present": self.present(now)}
        rounded = {name: round(value, 3) for name, value in seconds.items()}
        counts = {"shards": self.shards, "examples": self.examples}
        return {**self.place, **counts, **rounded, "died": self.ended is not None}


@dataclass
class Accounts:
    """What all workers did, living and dead. lost: how many shards went down with their worker."""

    tallies: list[Tally] = field(default_factory=list)
    lost: int = 0
    started: float = field(default_factory=lambda: time.monotonic())

    def welcome(self, place: dict[str, Any]) -> Tally:
        """A new worker."""
        self.tallies.append(Tally(place))
        return self.tallies[-1]

    def status(self) -> str:
        """A few words for the progress bar: how many workers, and what each does per second."""
        now = time.monotonic()
        rates = sorted(tally.examples / tally.present(now) for tally in self.tallies if tally.ended is None)
        if not rates:
            return "waiting for workers"
        shown = " ".join(f"{rate:.2g}" for rate in rates) if len(rates) <= 4 else f"{rates[0]:.2g} to {rates[-1]:.2g}"
        return f"{len(rates)} worker{'s' * (len(rates) > 1)}, {shown}/s each"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the manifest. waiting: the share of the workers' time in which they did not compute."""
        now = time.monotonic()
        present = sum(tally.present(now) for tally in self.tallies)
        busy = sum(tally.busy for tally in self.tallies)
        return {
            "name": "ray",
            "machines": dict(Counter(tally.place["machine"] for tally in self.tallies)),
            "workers": [tally.to_dict(now) for tally in self.tallies],
            "waiting": round(1 - min(1.0, busy / present), 4) if present else None,
            "seconds": round(now - self.started, 3),
            "lost_shards": self.lost,
        }

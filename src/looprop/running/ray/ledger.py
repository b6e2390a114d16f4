"""What each worker did: for the progress bar, and for the report."""

import time
from dataclasses import dataclass, field
from typing import Any

from looprop.running.ray.workers import Place, ShardOutcome


@dataclass
class Tally:
    """What one worker did. busy: seconds it computed. cpu: of its processors. ended: when it died, or None."""

    place: Place
    began: float
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


@dataclass
class Ledger:
    """What all workers did, living and dead. lost: how many shards went down with their worker."""

    tallies: list[Tally] = field(default_factory=list)
    lost: int = 0
    started: float = field(default_factory=time.monotonic)

    def welcome(self, place: Place) -> Tally:
        """A new worker."""
        tally = Tally(place, time.monotonic())
        self.tallies.append(tally)
        return tally

    def enter(self, tally: Tally, cost: float, outcome: ShardOutcome) -> None:
        """A shard came back."""
        tally.shards += 1
        tally.examples += len(outcome.results)
        tally.cost += cost
        tally.busy += outcome.seconds
        tally.cpu += outcome.cpu

    def status(self) -> str:
        """A few words for the progress bar: how many workers, and what each does per second."""
        now = time.monotonic()
        rates = sorted(tally.examples / tally.present(now) for tally in self.tallies if tally.ended is None)
        if not rates:
            return "waiting for workers"
        shown = " ".join(f"{rate:.2g}" for rate in rates) if len(rates) <= 4 else f"{rates[0]:.2g} to {rates[-1]:.2g}"
        return f"{len(rates)} worker{'s' * (len(rates) > 1)}, {shown}/s each"

    def account(self) -> dict[str, Any]:
        """Plain data for the manifest. waiting: the share of the workers' time in which they did not compute."""
        now = time.monotonic()
        machines: dict[str, int] = {}
        for tally in self.tallies:
            machines[tally.place.machine] = machines.get(tally.place.machine, 0) + 1
        present = sum(tally.present(now) for tally in self.tallies)
        busy = sum(tally.busy for tally in self.tallies)
        workers = [
            {
                "machine": tally.place.machine,
                "device": tally.place.device,
                "threads": tally.place.threads,
                "torch": tally.place.torch,
                "shards": tally.shards,
                "examples": tally.examples,
                "busy": round(tally.busy, 3),
                "cpu": round(tally.cpu, 3),
                "present": round(tally.present(now), 3),
                "died": tally.ended is not None,
            }
            for tally in self.tallies
        ]
        waiting = round(1 - min(1.0, busy / present), 4) if present else None
        seconds = round(now - self.started, 3)
        return {
            "name": "ray",
            "machines": machines,
            "workers": workers,
            "waiting": waiting,
            "seconds": seconds,
            "lost_shards": self.lost,
        }

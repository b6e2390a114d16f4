"""What each worker did: for the progress bar, and for the report."""

import time
from dataclasses import dataclass, field
from typing import Any

from looprop.running.ray.workers import Answer, Place


@dataclass
class Entry:
    """One worker's account. busy: seconds it computed. cpu: of its processors. ended: when it died, or None."""

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
    """The accounts of all workers, living and dead. lost: how many shards went down with their worker."""

    entries: list[Entry] = field(default_factory=list)
    lost: int = 0
    started: float = field(default_factory=time.monotonic)

    def welcome(self, place: Place) -> Entry:
        """A new worker."""
        entry = Entry(place, time.monotonic())
        self.entries.append(entry)
        return entry

    def enter(self, entry: Entry, cost: float, answer: Answer) -> None:
        """A shard came back."""
        entry.shards += 1
        entry.examples += len(answer.results)
        entry.cost += cost
        entry.busy += answer.seconds
        entry.cpu += answer.cpu

    def status(self) -> str:
        """A few words for the progress bar: how many workers, and what each does per second."""
        now = time.monotonic()
        rates = sorted(entry.examples / entry.present(now) for entry in self.entries if entry.ended is None)
        if not rates:
            return "waiting for workers"
        shown = " ".join(f"{rate:.2g}" for rate in rates) if len(rates) <= 4 else f"{rates[0]:.2g} to {rates[-1]:.2g}"
        return f"{len(rates)} worker{'s' * (len(rates) > 1)}, {shown}/s each"

    def account(self) -> dict[str, Any]:
        """Plain data for the manifest. waiting: the share of the workers' time in which they did not compute."""
        now = time.monotonic()
        machines: dict[str, int] = {}
        for entry in self.entries:
            machines[entry.place.machine] = machines.get(entry.place.machine, 0) + 1
        present = sum(entry.present(now) for entry in self.entries)
        busy = sum(entry.busy for entry in self.entries)
        workers = [
            {
                "machine": entry.place.machine,
                "device": entry.place.device,
                "threads": entry.place.threads,
                "torch": entry.place.torch,
                "shards": entry.shards,
                "examples": entry.examples,
                "busy": round(entry.busy, 3),
                "cpu": round(entry.cpu, 3),
                "present": round(entry.present(now), 3),
                "died": entry.ended is not None,
            }
            for entry in self.entries
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

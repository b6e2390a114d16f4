"""The engine `ray`: shards to workers, results back, whoever dies in between; an account of what each worker did.

The driver holds what is left to do and at most two shards per worker in flight. A worker that dies gives its shards
back and is replaced as soon as there is room; machines that join later are used. Results are handed out as they arrive,
each example once.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from looprop.errors import ClusterError, InputError, ShardError
from looprop.running.provenance import versions
from looprop.running.ray.apart import apart
from looprop.running.ray.connecting import BASE_MEMORY, WorkerSize, check_address, connected, import_ray, rooms
from looprop.running.ray.shards import ATTEMPTS, Shard, Shards, said
from looprop.running.ray.workers import Parcel, ShardOutcome, ShardWorker, pack_work


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
    """What all workers did, living and dead. lost: how many shards went down with their worker. failed: see
    `Shards`.
    """

    tallies: list[Tally] = field(default_factory=list)
    lost: int = 0
    failed: dict[str, str] = field(default_factory=dict)
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


IN_FLIGHT = 2  # shards per worker: one that it computes, one that lies ready
LOOK_SECONDS = 2.0  # how often the driver looks for machines that came
PATIENCE = 120.0  # seconds without any worker, living or loading, before a run is given up


@dataclass(frozen=True)
class RayEngine:
    """Computes on a Ray cluster.

    address: host:port of its head, "auto" for one that runs on this machine, "local" for one that is started for this
        run; None takes the one that RAY_ADDRESS or Ray itself knows, else it starts one.
    workers: at most so many; None uses all machines. threads: of each worker; numbers are the same bit for bit for the
        same number.
    gpus: of each worker, a share of one is allowed; None is 1 where the cluster has GPUs and 0 where it has none.
    """

    address: str | None = None
    workers: int | None = None
    threads: int = 1
    gpus: float | None = None

    def __post_init__(self) -> None:
        for name in ("workers", "threads"):
            value = getattr(self, name)
            if (value is not None or name == "threads") and (
                not isinstance(value, int) or isinstance(value, bool) or value < 1
            ):
                raise InputError(f"{name} must be an integer >= 1, got {value!r}")
        import_ray()
        # Known before anything is loaded.
        check_address(self.address or os.environ.get("RAY_ADDRESS"))

    def __call__(self, work: Callable[[Any], Any], items: Iterable[Any]) -> "RayRun":
        return RayRun(self, work, list(items))


class RayRun:
    """Results in any order; at the end a `ShardError` if some examples failed three times, after everything else."""

    def __init__(self, engine: RayEngine, work: Callable[[Any], Any], items: list[Any]) -> None:
        self._engine, self._work, self._items = engine, work, items
        self.accounts = Accounts()

    def __iter__(self) -> Iterator[Any]:
        return (result for results in self.batches() for result in results)

    def batches(self) -> Iterator[list[Any]]:
        """Results as they arrive, shard by shard."""
        if not self._items:
            return
        given = self._engine, pack_work(self._work), self._items
        # Who is connected already stays so.
        for results, self.accounts in drive(*given) if import_ray().is_initialized() else apart(drive, *given):
            if results:
                yield results
        if failed := self.accounts.failed:
            raise ShardError(failed, attempts=ATTEMPTS)

    def status(self) -> str:
        """Workers and what each does per second."""
        return self.accounts.status()

    def account(self) -> dict[str, Any]:
        """Machines, workers and their time, for the manifest."""
        return self.accounts.to_dict()


def drive(engine: RayEngine, parcel: Parcel, items: list[Any]) -> Iterator[tuple[list[Any], Accounts]]:
    """Results as they arrive, with the accounts so far."""
    shards = Shards(items, longest=parcel.longest)
    accounts = Accounts(failed=shards.failed)
    with connected(engine.address) as ray:
        dispatch = _Dispatch(ray, engine, parcel, shards, accounts)
        try:
            for results in dispatch.run():
                yield results, accounts
        finally:
            dispatch.close()
    yield [], accounts


@dataclass(eq=False)
class _Hand:
    """A worker as the driver sees it, loading until it has a tally in the accounts. pending: shards by promised answer,
    oldest first.
    """

    actor: Any
    ready: Any
    tally: Tally | None = None
    pending: dict[Any, Shard] = field(default_factory=dict)


class _Dispatch:
    def __init__(self, ray: Any, engine: RayEngine, parcel: Parcel, shards: Shards, accounts: Accounts) -> None:
        self.ray, self.engine, self.shards, self.accounts = ray, engine, shards, accounts
        found = rooms(ray.nodes())
        gpus = engine.gpus if engine.gpus is not None else float(any(room.get("GPU") for room in found.values()))
        self.size = WorkerSize(engine.threads, gpus, BASE_MEMORY + int(1.3 * parcel.size))
        if not any(map(self.size.fits, found.values())):
            have = "; ".join(
                f"{room.get('CPU', 0):g} CPU, {room.get('memory', 0) / 2**30:.1f} GB" for room in found.values()
            )
            raise ClusterError(f"no machine of the cluster has room for a worker ({self.size}); there are: {have}")
        self.parcel = ray.put(parcel)
        self.hands: list[_Hand] = []
        self.deaths = 0  # workers that died while they loaded, since the last one that did not
        self._looked = self._alive = -float("inf")

    def run(self) -> Iterator[list[Any]]:
        """Until everything is done, or has failed three times."""
        while self.shards or any(hand.pending for hand in self.hands):
            self._engage()
            for hand in self.hands:
                while hand.tally and len(hand.pending) < IN_FLIGHT and self.shards:
                    shard = self.shards.take(workers=len(self.hands), speed=hand.tally.speed)
                    hand.pending[hand.actor.compute.remote(shard.items)] = shard
            owners = {
                promise: hand for hand in self.hands for promise in ([*hand.pending] if hand.tally else [hand.ready])
            }
            if not owners:
                time.sleep(0.2)
                continue
            done, _ = self.ray.wait(list(owners), num_returns=1, timeout=LOOK_SECONDS)
            if done:
                results = self._receive(owners[done[0]], done[0])
                if results:
                    yield results

    def _engage(self) -> None:
        """Start workers where there is room for them."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        wanted = sum(map(self.size.fits, rooms(self.ray.nodes()).values()))
        wanted = min(wanted, self.engine.workers or wanted)
        if wanted or any(hand.tally for hand in self.hands):
            self._alive = now
        elif now - self._alive > PATIENCE:
            raise ClusterError(
                f"no machine of the cluster has had room for a worker ({self.size}) for {PATIENCE:.0f} seconds"
            )
        while len(self.hands) < wanted:
            options = {
                "num_cpus": self.size.processors,
                "num_gpus": self.size.gpus,
                "memory": self.size.memory,
                "max_restarts": 0,
            }
            actor = self.ray.remote(ShardWorker).options(**options).remote(self.engine.threads)
            self.hands.append(_Hand(actor, actor.prepare.remote(self.parcel, versions(), self.size.gpus > 0)))

    def _receive(self, hand: _Hand, promise: Any) -> list[Any]:
        exceptions = self.ray.exceptions
        try:
            answer = self.ray.get(promise)
        except exceptions.RayTaskError as error:
            if hand.tally is None:
                raise ClusterError(str(getattr(error, "cause", None) or error)) from error
            # The answer could not be sent: not the fault of the worker.
            shard = hand.pending.pop(promise)
            self.shards.fail(shard, shard.items, said(getattr(error, "cause", None) or error))
            return []
        except exceptions.RayError as error:
            self._bury(hand, error)
            return []
        if hand.tally is None:
            self.deaths = 0
            hand.tally = self.accounts.welcome(answer)
            return []
        shard, outcome = hand.pending.pop(promise), answer
        hand.tally.enter(shard.cost, outcome)
        for i, reason in outcome.errors.items():
            self.shards.fail(shard, [shard.items[i]], reason)
        return list(outcome.results.values())

    def _bury(self, hand: _Hand, error: Exception) -> None:
        """A worker is gone, or cannot be heard: nothing that it may still say is listened
        to, and its shards go back.
        """
        self.hands.remove(hand)
        self.ray.kill(hand.actor)
        reason = f"the worker died: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        if hand.tally is None:
            self.deaths += 1
            if self.deaths >= ATTEMPTS:
                raise ClusterError(f"workers die while they load the model: {reason}")
            return
        hand.tally.ended = time.monotonic()
        # The first is the one that it was computing; the others had only been sent.
        for i, shard in enumerate(hand.pending.values()):
            self.accounts.lost += 1
            if i == 0:
                self.shards.fail(shard, shard.items, reason)
            else:
                self.shards.give_back(shard)
        self._looked = -float("inf")

    def close(self) -> None:
        """End all workers."""
        for hand in self.hands:
            self.ray.kill(hand.actor)

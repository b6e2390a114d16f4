"""One worker: short before long, long ones in turns, stopped when nobody waits."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from looprop.serving.worker import MOST_WAITING, Busy, Stopped, Worker, one_step


@pytest.fixture
def worker() -> Iterator[Worker]:
    running = Worker()
    running.start()
    yield running
    running.end()


async def everything(worker: Worker, job: Iterator[Any], *, urgent: bool = False) -> list[Any]:
    return [value async for value in worker.run(job, urgent=urgent)]


def test_long_jobs_take_turns_and_short_ones_come_first(worker: Worker) -> None:
    order: list[str] = []
    gate = threading.Event()

    def steps(name: str) -> Iterator[str]:
        for number in range(3):
            order.append(f"{name}{number}")
            yield name

    def first() -> None:
        gate.wait(10)

    async def main() -> None:
        waiting = asyncio.create_task(everything(worker, one_step(first), urgent=True))
        await asyncio.sleep(0.05)
        jobs = [asyncio.create_task(everything(worker, steps(name))) for name in "ab"]
        await asyncio.sleep(0.05)
        short = asyncio.create_task(everything(worker, one_step(lambda: order.append("short")), urgent=True))
        await asyncio.sleep(0.05)
        gate.set()
        await asyncio.gather(waiting, short, *jobs)

    asyncio.run(main())
    assert order == ["short", "a0", "b0", "a1", "b1", "a2", "b2"]


def test_whoever_stops_listening_stops_the_job_before_its_next_pass(worker: Worker) -> None:
    passes: list[int] = []
    stopped = threading.Event()
    begun = threading.Event()

    def long() -> Iterator[int]:
        yield 0
        try:
            for number in range(10_000):
                worker.check()  # as before every pass through a model
                passes.append(number)
                begun.set()
                threading.Event().wait(0.001)
        except Stopped:
            stopped.set()
            raise

    async def main() -> None:
        listening = asyncio.create_task(everything(worker, long()))
        await asyncio.to_thread(begun.wait, 10)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        assert await asyncio.to_thread(stopped.wait, 10)
        assert await everything(worker, one_step(lambda: 7), urgent=True) == [7]

    asyncio.run(main())
    assert len(passes) < 10_000


def test_errors_come_back_and_the_worker_goes_on(worker: Worker) -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ValueError("no")

    async def main() -> None:
        with pytest.raises(ValueError, match="no"):
            await everything(worker, broken())
        assert await everything(worker, one_step(lambda: 2)) == [2]

    asyncio.run(main())


def test_a_full_line_is_said(worker: Worker) -> None:
    begun, gate = threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        gate.wait(10)

    async def main() -> None:
        jobs = [asyncio.create_task(everything(worker, one_step(first)))]
        await asyncio.to_thread(begun.wait, 10)
        jobs += [asyncio.create_task(everything(worker, one_step(lambda: 1))) for _ in range(MOST_WAITING)]
        await asyncio.sleep(0)  # all of them are in line
        try:
            with pytest.raises(Busy):
                await everything(worker, one_step(lambda: 1))
        finally:
            gate.set()
        assert sum(len(values) for values in await asyncio.gather(*jobs)) == 1 + MOST_WAITING

    asyncio.run(main())

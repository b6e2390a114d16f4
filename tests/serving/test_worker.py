"""One worker: short before long, long ones in turns, stopped when nobody waits."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from looprop.serving.worker import MOST_WAITING, Busy, Level, QueueWorker, Stopped, one_step


@pytest.fixture
def worker() -> Iterator[QueueWorker]:
    running = QueueWorker()
    yield running
    running.end()
    running.join()


async def everything(worker: QueueWorker, job: Iterator[Any], *, level: Level = Level.METHODS) -> list[Any]:
    return [value async for value in worker.run(job, level=level)]


def test_long_jobs_take_turns_and_short_ones_come_first(worker: QueueWorker) -> None:
    order: list[str] = []
    gate = threading.Event()

    def steps(name: str) -> Iterator[str]:
        for number in range(3):
            order.append(f"{name}{number}")
            yield name

    def first() -> None:
        gate.wait(10)

    async def main() -> None:
        waiting = asyncio.create_task(everything(worker, one_step(first), level=Level.STRIKE))
        await asyncio.sleep(0.05)
        jobs = [asyncio.create_task(everything(worker, steps(name))) for name in "ab"]
        await asyncio.sleep(0.05)
        short = asyncio.create_task(everything(worker, one_step(lambda: order.append("short")), level=Level.STRIKE))
        await asyncio.sleep(0.05)
        gate.set()
        await asyncio.gather(waiting, short, *jobs)

    asyncio.run(main())
    assert order == ["short", "a0", "b0", "a1", "b1", "a2", "b2"]


def test_whoever_stops_listening_stops_the_job_before_its_next_pass(worker: QueueWorker) -> None:
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
        assert await everything(worker, one_step(lambda: 7), level=Level.STRIKE) == [7]

    asyncio.run(main())
    assert len(passes) < 10_000


def test_a_long_job_pauses_in_the_middle_of_a_step_for_a_short_one(worker: QueueWorker) -> None:
    order: list[str] = []
    begun = threading.Event()

    def long() -> None:
        begun.set()
        while "short" not in order:  # would never end if the short one had to wait for it
            worker.check()
        order.append("long")

    async def main() -> None:
        slow = asyncio.create_task(everything(worker, one_step(long), level=Level.REFERENCE))
        await asyncio.to_thread(begun.wait, 10)
        await everything(worker, one_step(lambda: order.append("short")), level=Level.STRIKE)
        await slow

    asyncio.run(main())
    assert order == ["short", "long"]
    assert worker.idle


def test_one_job_computes_at_a_time(worker: QueueWorker) -> None:
    at_work: set[Level] = set()
    most: list[int] = []

    def job(level: Level) -> Iterator[int]:
        for _ in range(20):
            at_work.add(level)
            most.append(len(at_work))
            at_work.discard(level)
            worker.check()
            yield 1

    async def main() -> None:
        await asyncio.gather(*(everything(worker, job(level), level=level) for level in Level for _ in range(3)))

    asyncio.run(main())
    assert max(most) == 1
    assert len(most) == 20 * 3 * len(Level)


def test_a_paused_job_can_be_stopped(worker: QueueWorker) -> None:
    begun, gate, stopped = threading.Event(), threading.Event(), threading.Event()

    def long() -> None:
        begun.set()
        try:
            while True:
                worker.check()
        except Stopped:
            stopped.set()
            raise

    async def main() -> None:
        slow = asyncio.create_task(everything(worker, one_step(long)))
        await asyncio.to_thread(begun.wait, 10)
        short = asyncio.create_task(everything(worker, one_step(lambda: gate.wait(10)), level=Level.STRIKE))
        await asyncio.sleep(0.05)
        slow.cancel()
        assert await asyncio.to_thread(stopped.wait, 10)  # while the short one still runs
        gate.set()
        await asyncio.gather(slow, short, return_exceptions=True)

    asyncio.run(main())


def test_a_silent_job_is_asked_how_far_it_is(worker: QueueWorker) -> None:
    heard = threading.Event()

    async def main() -> list[Any]:
        found = []
        async for value in worker.run(one_step(lambda: heard.wait(10)), progress=lambda: "half"):
            found.append(value)
            heard.set()
        return found

    assert asyncio.run(main())[0] == "half"


def test_the_end_stops_what_runs_and_tells_whoever_waits() -> None:
    worker, begun = QueueWorker(), threading.Event()

    def long() -> None:
        begun.set()
        while True:
            worker.check()

    async def main() -> None:
        jobs = [asyncio.create_task(everything(worker, one_step(long))) for _ in range(3)]
        await asyncio.to_thread(begun.wait, 10)
        worker.end()
        assert await asyncio.wait_for(asyncio.gather(*jobs), 30) == [[], [], []]
        with pytest.raises(Busy):
            await everything(worker, one_step(lambda: 1))

    asyncio.run(main())
    worker.join()
    assert worker.idle
    assert not any(thread.is_alive() for thread in worker._pool._threads)


def test_errors_come_back_and_the_worker_goes_on(worker: QueueWorker) -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ValueError("no")

    async def main() -> None:
        with pytest.raises(ValueError, match="no"):
            await everything(worker, broken())
        assert await everything(worker, one_step(lambda: 2)) == [2]

    asyncio.run(main())


def test_a_full_line_is_said(worker: QueueWorker) -> None:
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

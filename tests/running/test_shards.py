"""What the engine of many machines does before and beside Ray: shards, retries, accounts, addresses."""

import socket
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from looprop.errors import ClusterError, InputError, ShardError
from looprop.evaluation.example import Task
from looprop.running.engines import engine_names, get_engine
from looprop.running.ray import shards as module
from looprop.running.ray.connecting import WorkerSize, check_address
from looprop.running.ray.engine import Accounts
from looprop.running.ray.shards import ATTEMPTS, EXAMPLES, SECONDS, Shards, estimated_cost
from looprop.running.ray.workers import ShardOutcome

PLACE = {"machine": "host", "device": "x86_64", "threads": 1, "torch": "2"}


def tasks(lengths: list[int]) -> list[Task]:
    return [Task(str(i), "x" * length) for i, length in enumerate(lengths)]


def test_cost_grows_with_the_square_of_the_length_and_stops_where_texts_are_cut() -> None:
    assert estimated_cost(Task("a", "x" * 4000)) == pytest.approx(100 * estimated_cost(Task("b", "x" * 400)), rel=0.05)
    assert estimated_cost(("x" * 400, "y" * 400)) == estimated_cost("z" * 800)
    assert estimated_cost("x" * 4000, longest=512) == estimated_cost("x" * 40000, longest=512) == 512**2


@settings(deadline=None)
@given(st.lists(st.integers(0, 3000), max_size=300), st.integers(1, 5), st.data())
def test_every_item_is_handed_out_once_longest_first(lengths: list[int], workers: int, data: st.DataObject) -> None:
    left, seen = Shards(tasks(lengths)), []
    while left:
        speed = data.draw(st.sampled_from([None, 10.0, 1e3, 1e5]))
        shard = left.take(workers=workers, speed=speed)
        assert 1 <= len(shard.items) <= EXAMPLES
        assert len(shard.items) == 1 or shard.cost <= (speed or 0) * SECONDS
        seen += shard.items
    assert [len(item.item) for item in seen] == sorted(lengths, reverse=True)
    assert len({item.id for item in seen}) == len(lengths)
    assert left.left == pytest.approx(0, abs=1e-6)


def finishing_times(lengths: list[int], workers: int) -> tuple[list[float], float]:
    """Simulated workers of one speed, each of which takes the next shard when it is done: when each ends, and the
    largest last shard.
    """
    left, clocks, last = Shards(tasks(lengths)), [0.0] * workers, [0.0] * workers
    speed: list[float | None] = [None] * workers
    while left:
        first = clocks.index(min(clocks))
        shard = left.take(workers=workers, speed=speed[first])
        clocks[first] += shard.cost
        last[first], speed[first] = shard.cost, 1e5
    return clocks, max(last)


@settings(deadline=None)
@given(st.lists(st.integers(20, 3000), min_size=40, max_size=400), st.integers(2, 8))
def test_nobody_finishes_long_after_the_others(lengths: list[int], workers: int) -> None:
    clocks, last = finishing_times(lengths, workers)
    longest = max(map(estimated_cost, tasks(lengths)))
    assert max(clocks) - min(clocks) <= last + 1e-6
    assert last <= max(longest, sum(clocks) / workers / 2 + 1e-6)


def test_the_last_shards_are_small() -> None:
    clocks, last = finishing_times([400] * 400, 4)
    one = estimated_cost(Task("", "x" * 400))
    assert last <= 2 * one
    assert max(clocks) - min(clocks) <= 2 * one


def test_what_fails_is_tried_alone_and_given_up_after_three_times() -> None:
    left = Shards(tasks([10] * 5))
    assert len(left.take(workers=1, speed=None).items) == 1
    shard = left.take(workers=1, speed=1e6)
    assert len(shard.items) > 1
    left.fail(shard, shard.items, "first")
    guilty, attempts = shard.items[0].id, Counter()
    while left:
        again = left.take(workers=1, speed=1e6)
        for item in again.items:
            attempts[item.id] += 1
        if again.items[0].id == guilty:
            left.fail(again, again.items, f"attempt {again.attempt}")
    assert left.failed == {guilty: f"attempt {ATTEMPTS}"}
    assert attempts[guilty] == ATTEMPTS - 1, "the first was with the others"
    assert all(attempts[item.id] == 1 for item in shard.items[1:])


def test_a_shard_that_was_never_begun_comes_back_whole() -> None:
    left = Shards(tasks([10] * 9))
    whole = left.left
    shard = left.take(workers=1, speed=1e9)
    left.give_back(shard)
    assert left.left == pytest.approx(whole)
    while (again := left.take(workers=1, speed=1e9)) is not shard:
        pass
    assert again.attempt == 1


def test_the_error_names_examples_and_reasons() -> None:
    error = ShardError({f"e{i}": f"reason {i}" for i in range(5)}, attempts=3, hint=". Again")
    assert (
        str(error)
        == "5 examples failed 3 times, all others are done: e0: reason 0; e1: reason 1; e2: reason 2; and e3, e4. Again"
    )
    with pytest.raises(ValueError, match="two") as caught:
        raise ValueError("two\nlines")
    assert module.said(caught.value).startswith("ValueError: two lines (test_shards.py:")


def test_accounts_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    accounts = Accounts()
    assert accounts.status() == "waiting for workers"
    first, second = accounts.welcome(PLACE), accounts.welcome({**PLACE, "machine": "other"})
    first.enter(50.0, ShardOutcome({0: "a", 1: "b"}, {}, 4.0))
    second.enter(10.0, ShardOutcome({0: "c"}, {1: "failed"}, 1.0))
    assert first.speed == 12.5
    now = 105.0
    second.ended = now
    now = 110.0
    account = accounts.to_dict()
    assert account["machines"] == {"host": 1, "other": 1}
    assert account["waiting"] == pytest.approx(1 - 5 / 15, abs=1e-4)
    assert [worker["examples"] for worker in account["workers"]] == [2, 1]
    assert [worker["died"] for worker in account["workers"]] == [False, True]
    assert accounts.status() == "1 worker, 0.2/s each"


def test_workers_that_fit_on_a_machine() -> None:
    size = WorkerSize(2, 0.5, 10 * 2**30)
    room = {"CPU": 9.0, "GPU": 4.0, "memory": 35 * 2.0**30}
    assert size.fits(room) == 3
    assert size.fits({**room, "memory": 1e15}) == 4
    assert size.fits({**room, "GPU": 0.5}) == 1
    assert WorkerSize(1, 0, 1).fits({"CPU": 2.0}) == 0, "memory that is not stated is none"


def test_without_ray_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "ray" or name.startswith("ray.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "ray" in engine_names()
    with pytest.raises(
        ClusterError, match=r"^engine 'ray' needs Ray, which is not installed: pip install 'looprop\[ray\]'$"
    ):
        get_engine("ray")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ray://head:10001", "is for Ray Client"),
        ("head", "must be host:port"),
        ("head:http", "must be host:port"),
        ("nowhere.invalid:6379", "no Ray cluster can be reached at nowhere.invalid:6379"),
        ("127.0.0.1:99999999", "no Ray cluster can be reached"),
    ],
)
def test_addresses_that_cannot_be(address: str, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        check_address(address)


def test_a_closed_port_is_said_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ClusterError, match=f"no Ray cluster can be reached at 127.0.0.1:{port}: Connection refused"):
        check_address(f"127.0.0.1:{port}")


def test_options_of_engines() -> None:
    with pytest.raises(InputError, match="engine 'local' takes no address"):
        get_engine("local", address="head:1")
    assert get_engine("local", address=None) is get_engine("local")
    pytest.importorskip("ray")
    with pytest.raises(InputError, match="threads must be an integer >= 1, got 0"):
        get_engine("ray", threads=0)
    with pytest.raises(InputError, match=r"workers must be an integer >= 1, got 1.5"):
        get_engine("ray", workers=1.5)

"""What nobody waits for is not computed, and nobody waits for what is not urgent. By counts, never by the clock."""

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from looprop.serving import app, worker
from looprop.serving.asked import TOGETHER, Asked
from looprop.serving.worker import Level
from serving.conftest import Served

LONG = {"model": "embedded", "text": "a very good film . " * 12}
PATIENCE = 120.0


def given_up(worker: Any) -> bool:
    """Has the worker heard that nobody waits for what it does, or for anything?"""
    job = worker._computing
    return worker.idle if job is None else bool(job.stopped)


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.005)


@contextmanager
def asking(served: Served, path: str, data: Any) -> Iterator[http.client.HTTPConnection]:
    """A request that is under way; it is closed at the end, answered or not."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)
    connection.request("POST", path, body=json.dumps(data), headers=served.headers())
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def before_each_pass(served: Served, name: str, function: Callable[[int], None]) -> Iterator[list[int]]:
    """Calls a function with the number of each pass through a model; gives the numbers so far."""
    passes: list[int] = []

    def note(*_: Any) -> None:
        passes.append(len(passes))
        function(passes[-1])

    hook = served.explorer.benches[name].model.register_forward_pre_hook(note)
    try:
        yield passes
    finally:
        hook.remove()


def test_closing_a_stream_stops_leave_one_out(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    worker, gate = served.explorer.worker, threading.Event()
    effects = Asked.effects

    def held(asked: Asked, which: list[int], value: Any = None) -> list[float]:
        if which[0] == TOGETHER:  # the second few
            gate.wait(PATIENCE)
        return effects(asked, which, value)

    monkeypatch.setattr(Asked, "effects", held)
    with asking(served, "/api/explain", {"question": LONG, "methods": ["loo"]}) as connection:
        assert json.loads(connection.getresponse().readline())["from"] == 0
    until(lambda: given_up(worker))
    gate.set()
    until(lambda: worker.idle)
    asked = next(a for q, a in served.explorer._known.items() if q.text == LONG["text"])
    assert asked.value.count.computed == TOGETHER < asked.count


@pytest.mark.parametrize("path", ["/api/ask", "/api/answer"])
def test_closing_a_request_stops_what_is_generated(served: Served, path: str) -> None:
    """In the middle of a pass: of the layers after the first that was begun none runs."""
    worker, begun, gate = served.explorer.worker, threading.Event(), threading.Event()
    question = {"model": served.lm, "text": f"the film is {path}", "features": "word", "answer": 40}
    data = question if path == "/api/ask" else {"question": question, "struck": [0]}
    if path == "/api/answer":
        assert served.post("/api/ask", question)[0] == 200

    def pause(number: int) -> None:
        if number == 5:
            begun.set()
            gate.wait(PATIENCE)

    with before_each_pass(served, served.lm, pause) as passes:
        with asking(served, path, data):
            assert begun.wait(PATIENCE)
        until(lambda: given_up(worker))
        gate.set()
        until(lambda: worker.idle)
        assert len(passes) == 6
    assert served.post("/api/ask", question)[0] == 200


def test_a_strike_out_is_answered_in_the_middle_of_shapley_values(served: Served) -> None:
    running, struck = threading.Event(), threading.Event()
    worker = served.explorer.worker

    def hold(number: int) -> None:
        if worker._here.job.level is Level.REFERENCE:
            running.set()
            while not struck.is_set():  # as a pass would, layer after layer
                worker.check()
                time.sleep(0.001)

    question = {"model": "embedded", "text": "not a bad film"}
    with (
        before_each_pass(served, "embedded", hold),
        asking(served, "/api/explain", {"question": question, "methods": ["shapley"]}) as connection,
    ):
        assert running.wait(PATIENCE)
        status, said = served.post("/api/without", {"question": question, "struck": [2]})
        assert status == 200
        assert served.post("/api/ask", {"model": "embedded", "text": "another"})[0] == 200
        assert served.request("GET", "/")[0] == 200
        struck.set()
        found = [json.loads(line) for line in connection.getresponse().read().splitlines()]
    assert any("scores" in one for one in found)
    assert said["change"] != 0


@pytest.mark.parametrize("kind", ["embedded", "lm", "vit"])
def test_a_stop_in_the_middle_of_any_pass_leaves_the_model_as_it_was(served: Served, kind: str) -> None:
    name = {"lm": served.lm, "vit": served.vit}.get(kind, kind)
    question = {"model": name, "image": served.picture} if kind == "vit" else {"model": name, "text": "a good film"}
    asked = {"question": question, "methods": ["cp-lrp", "attnlrp", "loo", "looprop", "rollout"]}
    layer = next(part for part in served.explorer.benches[name].model.modules() if isinstance(part, nn.ModuleList))[-1]
    wanted = served.lines("/api/explain", asked)
    stops = 0
    for last in range(1, 100):
        left = [last]

        def stopping(*_: Any, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise worker.Stopped

        hook = layer.register_forward_pre_hook(stopping)
        served.lines("/api/explain", asked)
        hook.remove()
        if left[0] > 0:  # there are no so many passes
            break
        stops += 1
        again = served.lines("/api/explain", asked)
        assert [one["method"] for one in again] == [one["method"] for one in wanted]
        for one, other in zip(again, wanted, strict=True):
            assert one.get("scores") == pytest.approx(other.get("scores"), abs=1e-6)
            assert one.get("error") == other.get("error")
    assert stops >= 3


def test_a_stopped_shapley_value_gives_nothing_more(served: Served) -> None:
    worker = served.explorer.worker
    with asking(served, "/api/explain", {"question": LONG, "methods": ["shapley"]}) as connection:
        first = json.loads(connection.getresponse().readline())
        assert 0 < first["computed"] < first["most"]
    until(lambda: worker.idle)


def test_a_request_that_takes_too_long_ends(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "LONGEST_WAIT", 0.2)
    gate = threading.Event()
    with before_each_pass(served, "embedded", lambda _: gate.wait(PATIENCE) and None):
        status, said = served.post("/api/ask", {"model": "embedded", "text": "something new"})
        gate.set()
    assert (status, said["error"]) == (503, "stopped: it took longer than a request may")
    until(lambda: served.explorer.worker.idle)
    monkeypatch.undo()
    assert served.post("/api/ask", {"model": "embedded", "text": "something new"})[0] == 200


def test_a_full_line_is_said(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MOST_WAITING", 0)
    status, said = served.post("/api/ask", LONG)
    assert status == 503
    assert "too many" in said["error"]


def test_a_thousand_requests_in_a_row_leave_memory_flat(served: Served) -> None:
    if not Path("/proc/self/statm").exists():
        pytest.skip("no /proc on this system")

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096

    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE)

    def ask(number: int) -> None:
        body = json.dumps({"question": {"model": "embedded", "text": f"film {number % 12}"}, "struck": [1]})
        connection.request("POST", "/api/without", body=body, headers=served.headers())
        assert connection.getresponse().read()

    for number in range(200):
        ask(number)
    before = resident()
    for number in range(1000):
        ask(number)
    connection.close()
    assert resident() - before < 64 * 2**20


def test_questions_asked_long_ago_are_forgotten(served: Served) -> None:
    for number in range(20):
        served.post("/api/ask", {"model": served.lm, "text": f"the film {'good ' * number}"})
    assert len(served.explorer._known) <= 16

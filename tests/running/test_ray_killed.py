"""Runs on a Ray of their own, whose workers, node or driver are killed in the middle."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from evaluation.tiny import TEXTS, save_tiny
from looprop.cli.main import app
from looprop.errors import ClusterError
from looprop.evaluation import Evaluation
from looprop.models.loading import load_adapter
from looprop.running.ray.engine import RayEngine
from looprop.running.ray.shards import Shards
from looprop.running.store import read_store
from running.processes import below, drivers, kill_node, kill_worker
from running.slow_work import COUNT, computed, plain, work_through

pytest.importorskip("ray", reason="looprop[ray] is not installed")
# Ray leaves sockets and processes to the end of the interpreter.
pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """As many threads as a worker has: otherwise sums may differ in their last bit."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def local(model: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The table of the tasks, computed in this process."""
    folder = tmp_path_factory.mktemp("local")
    return plain(work_through(load_adapter(model), folder, "local"))


def accidents(*kills: Callable[[], object]) -> Callable[[], None]:
    """To be called after each example: one of these happens after every fourth."""
    left, count = list(kills), 0

    def done() -> None:
        nonlocal count
        count += 1
        if left and count % 4 == 0:
            left.pop(0)()

    return done


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_evaluate_goes_on_with_the_same_command_after_a_worker_and_a_node_died(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_worker_niceness", "0")
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(8 * f"{a} but {b} " for a in TEXTS for b in TEXTS), encoding="utf-8")
    command = ["evaluate", str(texts), "--model", str(model), "--method", "loo", "--method", "cp-lrp", "--out"]
    assert CliRunner().invoke(app, [*command, str(tmp_path / "here")]).exit_code == 0
    command += [str(tmp_path / "there"), "--engine", "ray", "--address", "local", "--workers", "1"]
    done = accidents(kill_worker, kill_node)

    @contextmanager
    def watched(*_: Any) -> Iterator[Any]:
        yield lambda note="", count=1: done()

    with monkeypatch.context() as patch:
        patch.setattr("looprop.evaluation.evaluate.shown_by", watched)
        result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert "a node died" in result.output
    assert "Give the same command again" in result.output
    assert not drivers()
    (kept,) = (tmp_path / "there.unfinished").iterdir()
    finished = read_store(kept).where
    assert 8 <= len(finished) < len(TEXTS) ** 2
    started: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(
            "looprop.running.ray.engine.Shards",
            lambda items, **options: (started.extend(task.id for task in items), Shards(items, **options))[1],
        )
        patch.setattr("looprop.running.ray.engine.apart", lambda drive, *given: drive(*given))
        result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert not {*started} & {*finished}, "what was done is not computed again"
    here, there = (Evaluation.load(tmp_path / name) for name in ("here", "there"))
    assert plain(there.rows) == plain(here.rows)
    assert there.frames.keys() == here.frames.keys()
    assert not (tmp_path / "there.unfinished").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_run_goes_on_after_its_only_node_died(
    model: Path, local: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_worker_niceness", "0")
    done = accidents(kill_node)

    def engine(work: Any, items: Any) -> Iterator[Any]:
        for result in RayEngine("local", workers=1)(work, items):
            yield result
            done()

    with pytest.raises(ClusterError, match="a node died"):
        work_through(load_adapter(model), tmp_path, engine, seconds=0.3)
    finished = read_store(tmp_path / "run").where
    assert 4 <= len(finished) < COUNT
    assert plain(work_through(load_adapter(model), tmp_path, "local")) == local
    assert {computed(tmp_path)[example] for example in finished} == {1}


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_nothing_outlives_a_process_that_was_killed(tmp_path: Path) -> None:
    script = (
        "import os; from looprop.running.ray.engine import RayEngine\n"
        "for name in RayEngine('local', workers=1)(os.path.basename, ['a/b'] * 10_000): print(name, flush=True)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None
        assert asking.stdout.readline() == "b\n"
        started = below(asking.pid)
        assert any("raylet" in words for words in started.values())
        asking.kill()
    end = time.monotonic() + 120  # a few seconds on a quiet machine
    while alive := [number for number in started if Path(f"/proc/{number}/exe").exists()]:
        assert time.monotonic() < end, [started[number] for number in alive]
        time.sleep(0.1)

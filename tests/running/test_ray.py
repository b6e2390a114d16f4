"""The engine `ray` on a real Ray of two nodes, started here: equal to a local run bit by bit, whoever dies."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from evaluation.tiny import TEXTS, many_tasks, save_tiny, tiny_model, tiny_tokenizer
from looprop.auditing.audit import audit
from looprop.cli.main import app
from looprop.errors import ClusterError, ShardError
from looprop.evaluation.evaluate import evaluate
from looprop.models.loading import load_adapter
from looprop.running.engines import get_engine
from looprop.running.ray import connecting
from looprop.running.ray.engine import RayEngine
from looprop.running.store import read_store
from looprop.study import read_run, reproduce
from looprop.workbench import load
from running.slow_work import COUNT, computed, plain, work_through
from study.own_kind import write_own_kind

pytest.importorskip("ray", reason="looprop[ray] is not installed")
# Ray leaves sockets and processes to the end of the interpreter.
pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore::ResourceWarning")]

NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one processor each."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        # Workers inherit it from their node: they import the work that these tests send.
        patch.setenv(
            "PYTHONPATH",
            os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]),
        )
        # Ray's workers give way to all other processes; on a machine that also runs the rest of the suite they would
        # hardly run at all.
        patch.setenv("RAY_worker_niceness", "0")
        yield from running(Cluster)


def running(kind: Any) -> Iterator[Any]:
    started = kind(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    started.add_node(**NODE)
    try:
        yield started
    finally:
        started.shutdown()


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


def test_begun_here_and_continued_on_the_cluster_the_table_is_that_of_a_local_run(
    cluster: Any, model: Path, tmp_path: Path
) -> None:
    def stops(work: Callable[[Any], Any], items: Any) -> Iterator[Any]:
        for item in items[:2]:
            yield work(item)
        raise KeyboardInterrupt

    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(f"{a} but {b}" for a in TEXTS for b in TEXTS[:2]), encoding="utf-8")
    options: dict[str, Any] = {"model": str(model), "data": str(texts), "progress": False}
    here = reproduce("layers", out=tmp_path / "here", **options)
    with pytest.raises(KeyboardInterrupt):
        reproduce("layers", out=tmp_path / "there", engine=stops, **options)
    command = ["reproduce", "layers", "--model", str(model), "--data", str(texts), "--out", str(tmp_path / "there")]
    result = CliRunner().invoke(app, [*command, "--engine", "ray", "--address", cluster.address])
    assert result.exit_code == 0, result.output
    there = read_run(tmp_path / "there")
    assert plain(there.rows) == plain(here.rows)
    assert there.manifest["identity"] == here.manifest["identity"]
    account = there.manifest["sessions"][-1]["engine"]
    assert sum(worker["examples"] for worker in account["workers"]) == 10
    assert account["machines"] == {socket.gethostname(): len(account["workers"])}
    assert 0 <= account["waiting"] <= 1
    report = (tmp_path / "there" / "report.md").read_text(encoding="utf-8")
    assert f"{socket.gethostname()} (" in report
    assert "of their time spent waiting" in report


def test_workers_get_the_code_of_a_folder_that_they_do_not_have(cluster: Any, tmp_path: Path) -> None:
    folder = write_own_kind(tmp_path, "cubes")
    here = reproduce(folder, out=tmp_path / "here", progress=False)
    there = reproduce(folder, out=tmp_path / "there", engine=RayEngine(cluster.address), progress=False)
    assert there.rows == here.rows
    assert there.manifest["sessions"][-1]["engine"]["name"] == "ray"


def test_ready_made_models_travel_whole(cluster: Any) -> None:
    m = load((tiny_model(), tiny_tokenizer()))
    methods = ["loo", "ig[steps=3]", "shapley[samples=4]", "both-ends", "fast-shapley[budget=6]"]
    metrics = ["loo-r", "shapley-r"]
    here = evaluate(m, TEXTS, methods, metrics=metrics)
    there = evaluate(m, TEXTS, methods, metrics=metrics, engine=RayEngine(address=cluster.address, workers=1))
    assert plain(there.rows) == plain(here.rows)
    assert len(there.about["engine"]["workers"]) == 1


def test_a_node_removed_in_the_middle(cluster: Any, model: Path, local: str, tmp_path: Path) -> None:
    doomed = cluster.add_node(**NODE)
    runs: list[Any] = []
    removed_after: list[int] = []

    def engine(work: Any, items: Any) -> Iterator[Any]:
        runs.append(get_engine("ray", address=cluster.address)(work, items))
        for i, result in enumerate(runs[0]):
            # Not before all three are at work, so that it has something to lose.
            if not removed_after and len(runs[0].accounts.tallies) == 3:
                cluster.remove_node(doomed, allow_graceful=False)
                removed_after.append(i)
            yield result

    assert plain(work_through(load_adapter(model), tmp_path, engine, seconds=0.4)) == local
    assert removed_after[0] < COUNT - 3, "the node was removed while there was work"
    account = runs[0].account()
    assert sum(worker["died"] for worker in account["workers"]) == 1
    assert account["lost_shards"] >= 1
    times = computed(tmp_path)
    assert set(times) == {task.id for task in many_tasks(COUNT)}
    assert sum(times.values()) <= COUNT + 8, "only what was lost is computed again"


def test_the_driver_killed_and_started_again_computes_no_finished_shard_twice(
    cluster: Any, model: Path, local: str, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        str(Path(__file__).with_name("ray_driver.py")),
        cluster.address,
        str(model),
        str(tmp_path / "run"),
    ]
    command += [str(tmp_path), str(COUNT), "0.3"]
    parts = tmp_path / "run" / "parts"
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as driver:
        while len(list(parts.glob("*.parquet")) if parts.exists() else []) < 4:
            assert driver.poll() is None, driver.stderr.read() if driver.stderr else ""
            time.sleep(0.02)
        driver.send_signal(signal.SIGKILL)
    finished = {row["example"] for row in read_store(tmp_path / "run").rows()}
    assert 4 <= len(finished) < COUNT
    assert plain(work_through(load_adapter(model), tmp_path, get_engine("ray", address=cluster.address))) == local
    times = computed(tmp_path)
    assert {times[example] for example in finished} == {1}
    assert set(times) == {task.id for task in many_tasks(COUNT)}


def test_what_fails_three_times_is_reported_and_only_that_is_tried_again(cluster: Any, tmp_path: Path) -> None:
    (tmp_path / "raise-t3").touch()
    (tmp_path / "die-t8").touch()
    engine = get_engine("ray", address=cluster.address)
    with pytest.raises(ShardError, match=r"2 examples failed 3 times, all others are done") as caught:
        work_through(None, tmp_path, engine)
    assert set(caught.value.failed) == {"t3", "t8"}
    assert "RuntimeError: t3 was told to fail (slow_work.py:" in caught.value.failed["t3"]
    assert "the worker died" in caught.value.failed["t8"]
    before = computed(tmp_path)
    assert (before["t3"], before["t8"]) == (3, 3)
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))
    assert set(manifest["sessions"][-1]["failed"]) == {"t3", "t8"}
    assert manifest["sessions"][-1]["finished"] is None
    for path in (tmp_path / "raise-t3", tmp_path / "die-t8"):
        path.unlink()
    assert [row["example"] for row in work_through(None, tmp_path, engine)] == [task.id for task in many_tasks(COUNT)]
    assert computed(tmp_path) - before == {"t3": 1, "t8": 1}


def test_a_model_that_cannot_be_loaded_ends_the_run_at_once(cluster: Any, tmp_path: Path) -> None:
    adapter = load_adapter(save_tiny(tmp_path / "model"))
    save_tiny(tmp_path / "model", seed=1)
    with pytest.raises(
        ClusterError,
        match=f"{socket.gethostname()} could not load what it needs: ModelError: .* is not the model of the driver, "
        "changed: weights",
    ):
        work_through(adapter, tmp_path, RayEngine(address=cluster.address, workers=1))
    (tmp_path / "model" / "config.json").unlink()
    with pytest.raises(ClusterError, match=r"ModelError: .*model holds no config\.json"):
        work_through(adapter, tmp_path, RayEngine(address=cluster.address, workers=1))
    assert not computed(tmp_path)


def test_an_audit_on_the_cluster_is_that_of_this_process(cluster: Any) -> None:
    m = load((tiny_model(), tiny_tokenizer()))
    options: dict[str, Any] = {"methods": ["loo", "attnlrp"], "rewrites": ["linear-split", "norm-split"]}
    here = audit(m, TEXTS[:2], **options)
    there = audit(m, TEXTS[:2], engine=RayEngine(address=cluster.address, workers=1), **options)
    assert repr((there.attempts, there.rows, there.checks)) == repr((here.attempts, here.rows, here.checks))
    assert there.about["engine"]["name"] == "ray"


def test_too_little_room_is_said(cluster: Any) -> None:
    run = RayEngine(address=cluster.address, threads=64)(str, ["x"])
    with pytest.raises(
        ClusterError, match=r"no machine of the cluster has room for a worker \(64 CPU, .*; there are: 1 CPU"
    ):
        list(run)


def test_what_listens_but_is_no_cluster_is_said_within_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    assert connecting.CONNECT_SECONDS + connecting.ANSWER_SECONDS < 30
    monkeypatch.setattr(connecting, "ANSWER_SECONDS", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(
            ClusterError, match=rf"what listens at {address} did not answer like a Ray cluster within 3 seconds"
        ):
            get_engine("ray", address=address)


def test_ray_of_this_process_is_used_and_left_running(cluster: Any) -> None:
    import ray

    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    try:
        assert sorted(RayEngine(workers=1)(os.path.basename, ["a/b", "c/d"])) == ["b", "d"]
        assert ray.is_initialized()
    finally:
        ray.shutdown()

"""Models of the hub, as they lie in its cache, and folders, which ask nothing of the network."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import attack_files
import looprop
import tiny
from attack_files import Bomb, configure, write_json
from looprop.errors import ModelError
from looprop.models.folder import INDEX


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a/b in the cache of the hub's library, which is offline here."""
    repository = tmp_path / "hub" / "models--a--b"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0123", encoding="utf-8")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    for part in tiny.tiny_classifier():
        part.save_pretrained(repository / "snapshots" / "0123")
    return repository / "snapshots" / "0123"


def test_a_model_of_the_hub(hub: Path) -> None:
    found = looprop.load("a/b").explain("the film", target=1)
    assert found.scores == pytest.approx(
        looprop.load(tiny.tiny_classifier()).explain("the film", target=1).scores, rel=1e-4
    )
    assert found.model == "a/b"


def test_what_is_refused_in_a_folder_is_refused_on_the_hub(hub: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    torch.save(Bomb(mark), hub / "own.bin")
    write_json(hub / INDEX, {"weight_map": {"classifier.bias": "own.bin"}})
    with pytest.raises(ModelError, match=r"names 'own\.bin'; only safetensors"):
        looprop.load("a/b")
    (hub / INDEX).unlink()
    configure(hub, num_labels=10**10)
    with pytest.raises(ModelError, match="LOOPROP_MAX_LABELS"):
        looprop.load("a/b")
    write_json(hub / "adapter_config.json", {"base_model_name_or_path": "somebody/else"})
    with pytest.raises(ModelError, match="adapter of peft"):
        looprop.load("a/b")
    assert not mark.exists()


ALONE = """
import socket, sys
def refuse(*arguments, **options):
    raise SystemExit("somebody asked for the network")
socket.socket.connect = socket.getaddrinfo = refuse
import looprop
for folder in sys.argv[1:]:
    looprop.load(folder)
print(looprop.load().explain("good").label)
"""


@pytest.mark.slow
def test_folders_ask_nothing_of_the_network(tmp_path: Path) -> None:
    folders = attack_files.make_models(tmp_path)
    online = {**os.environ, "HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "0"}
    command = [sys.executable, "-c", ALONE, *map(str, folders)]
    done = subprocess.run(command, env=online, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "positive"), done.stderr


@pytest.mark.parametrize("known", [False, True])
def test_a_hub_that_does_not_answer_is_asked_once(known: bool, hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its library would ask six times for every file, over half a minute each."""
    asked = []

    def refuse(host: object, *_: object, **__: object) -> None:
        asked.append(host)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    if known:
        assert looprop.load("a/b").adapter.name == "a/b"
    else:
        with pytest.raises(ModelError, match=r"does not hold it, and the hub does not answer: .*not known"):
            looprop.load("nobody/nothing")
    assert len(asked) == 1


@pytest.mark.parametrize(
    "source", ["/nonexistent/x", "./models/mine", "no such model!", Path("nowhere") / "here" / "x"]
)
def test_what_is_no_folder_and_no_id_is_told_apart(source: str | Path) -> None:
    with pytest.raises(ModelError, match="there is no such folder, and it is no hub id either"):
        looprop.load(source)

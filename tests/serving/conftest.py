"""A real server on a free port of this machine: the embedded model, a tiny language model, a tiny ViT and a picture."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image

import looprop
from tiny import stir, tiny_decoder

pytest.importorskip("starlette", reason="the explorer needs looprop[serve]")
pytest.importorskip("uvicorn", reason="the explorer needs looprop[serve]")

from looprop.serving.app import Explorer, server
from looprop.serving.guard import address_of, bound_socket, cookie_name, new_token


@dataclass(frozen=True)
class Served:
    """A running server, and a way to ask it. picture: a file; lm, vit: names of models, which are their folders."""

    port: int
    token: str
    explorer: Any
    picture: str = ""
    lm: str = ""
    vit: str = ""

    @property
    def address(self) -> str:
        return address_of("127.0.0.1", self.port, self.token)

    def headers(self, **changes: str | None) -> dict[str, str]:
        cookie = f"{cookie_name(self.port)}={self.token}"
        usual: dict[str, str | None] = {"Host": f"127.0.0.1:{self.port}", "Cookie": cookie}
        usual |= {"Content-Type": "application/json"}
        return {name: value for name, value in (usual | changes).items() if value is not None}

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Status and body of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            given = dict(self.headers() if headers is None else headers)
            if body is not None:
                given.setdefault("Content-Length", str(len(body)))
            for name, value in given.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            try:
                return response.status, response.read()
            except ConnectionResetError:  # a server that refuses before it has read the body may hang up
                return response.status, b""
        finally:
            connection.close()

    def post(self, path: str, data: Any) -> tuple[int, Any]:
        status, body = self.request("POST", path, json.dumps(data).encode())
        return status, json.loads(body)

    def lines(self, path: str, data: Any) -> list[Any]:
        """What a stream gives, without the lines that say how far it is: those come only where time passes."""
        status, body = self.request("POST", path, json.dumps(data).encode())
        assert status == 200, body
        return [one for one in map(json.loads, body.splitlines()) if "computed" not in one]


def tiny_vit(folder: Path) -> str:
    """A folder with a random ViT on 16 x 16 images and its processor."""
    torch.manual_seed(0)
    config = hf.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=16, patch_size=4,
        id2label={0: "cat", 1: "dog", 2: "owl"}, label2id={"cat": 0, "dog": 1, "owl": 2},
    )  # fmt: skip
    stir(hf.ViTForImageClassification(config), torch.float32).save_pretrained(folder)
    hf.ViTImageProcessorPil(size={"height": 16, "width": 16}).save_pretrained(folder)
    return str(folder)


def picture_file(path: Path, seed: int = 0, side: int = 40) -> str:
    """A PNG of random colours."""
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return str(path)


def tiny_lm(folder: Path) -> str:
    """A folder with a random language model."""
    model, tokenizer = tiny_decoder()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    picture = picture_file(folder / "noise.png")
    models = {"embedded": None, "lm": tiny_lm(folder / "lm"), "vit": tiny_vit(folder / "vit")}
    names = {kind: path or kind for kind, path in models.items()}
    benches = {names[kind]: looprop.load(path) for kind, path in models.items()}
    explorer = Explorer(benches, token=new_token(), images=[picture])
    with serving(explorer) as port:
        yield Served(port, explorer.token, explorer, picture, names["lm"], names["vit"])


@contextmanager
def serving(explorer: Explorer) -> Iterator[int]:
    """The explorer on a free port of this machine."""
    with bound_socket("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        running = server(explorer, listening, "127.0.0.1")
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not running.started:
            assert thread.is_alive()
            time.sleep(0.01)
        try:
            yield port
        finally:
            running.should_exit = True
            thread.join(timeout=60)
            assert not thread.is_alive()

"""A real server on a free port of this machine, with the embedded model and a tiny language model."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import looprop
from tiny import tiny_decoder

pytest.importorskip("starlette", reason="the explorer needs looprop[serve]")
uvicorn = pytest.importorskip("uvicorn", reason="the explorer needs looprop[serve]")

from looprop.serving.app import Explorer  # noqa: E402 - only where its packages are there
from looprop.serving.guard import COOKIE, known_hosts, new_token  # noqa: E402
from looprop.serving.listening import address_of, bound_socket  # noqa: E402


@dataclass(frozen=True)
class Served:
    """A running server, and a way to ask it."""

    port: int
    token: str
    explorer: Any

    @property
    def address(self) -> str:
        return address_of("127.0.0.1", self.port, self.token)

    def headers(self, **changes: str | None) -> dict[str, str]:
        usual: dict[str, str | None] = {"Host": f"127.0.0.1:{self.port}", "Cookie": f"{COOKIE}={self.token}"}
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
            return response.status, response.read()
        finally:
            connection.close()

    def post(self, path: str, data: Any) -> tuple[int, Any]:
        status, body = self.request("POST", path, json.dumps(data).encode())
        return status, json.loads(body)

    def lines(self, path: str, data: Any) -> list[Any]:
        status, body = self.request("POST", path, json.dumps(data).encode())
        assert status == 200
        return [json.loads(line) for line in body.splitlines()]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    listening = bound_socket("127.0.0.1", 0)
    port = listening.getsockname()[1]
    explorer = Explorer({"embedded": looprop.load(), "tiny": looprop.load(tiny_decoder())}, token=new_token())
    config = uvicorn.Config(explorer.application(known_hosts("127.0.0.1", port)), log_level="critical")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield Served(port, explorer.token, explorer)
    server.should_exit = True
    thread.join(timeout=10)
    assert not thread.is_alive()

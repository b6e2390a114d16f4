"""`looprop serve` in a process of its own: what it prints, how it ends."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner

from looprop.cli.main import app

pytest.importorskip("starlette", reason="the explorer needs looprop[serve]")


@contextmanager
def process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A running server, and the lines that it printed until it was up."""
    command = [sys.executable, "-m", "looprop", "serve", "--port", "0", *arguments]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as running:
        assert running.stderr is not None
        said: list[str] = []
        try:
            for line in running.stderr:
                said.append(line.strip())
                if "Ctrl-C" in line:
                    break
            yield running, said
        finally:
            running.kill()


def connected(address: str) -> tuple[http.client.HTTPConnection, dict[str, str]]:
    parts = urlsplit(address)
    assert parts.port is not None
    token = parse_qs(parts.query)["token"][0]
    connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=120)
    cookie = f"looprop-token-{parts.port}={token}"
    headers = {"Host": f"127.0.0.1:{parts.port}", "Cookie": cookie, "Content-Type": "application/json"}
    return connection, headers


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_ends_it_cleanly_in_the_middle_of_work() -> None:
    with process() as (running, said):
        address = said[0].removeprefix("looprop: ")
        assert address.startswith("http://127.0.0.1:")
        assert len(parse_qs(urlsplit(address).query)["token"][0]) >= 32
        connection, headers = connected(address)
        question: Any = {"model": "embedded", "text": "a very good film . " * 12}
        body = json.dumps({"question": question, "methods": ["shapley"]})
        connection.request("POST", "/api/explain", body=body, headers=headers)
        with connection.getresponse() as answer:
            assert b"computed" in answer.readline()
            running.send_signal(signal.SIGINT)
            answer.read()  # it is ended, not broken off
        connection.close()
        assert running.stderr is not None
        rest = running.stderr.read()
        assert running.wait(timeout=120) == 0
    assert rest.strip() == "looprop: ended"


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_host_that_others_reach_is_said() -> None:
    with process("--host", "0.0.0.0") as (running, said):
        assert "can be reached from other machines" in said[0]
        assert "nothing is encrypted" in said[0]
        connection, headers = connected(said[1].removeprefix("looprop: "))
        connection.request("GET", "/", headers={**headers, "Host": "evil.example"})
        assert connection.getresponse().status == 403
        connection.close()
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=120) == 0


def test_wrong_arguments_are_said_in_one_line(tmp_path: Any) -> None:
    found = CliRunner().invoke(app, ["serve", "--port", "0", "--image", str(tmp_path / "none.png")])
    assert found.exit_code == 1
    assert "is no file" in found.output
    found = CliRunner().invoke(app, ["serve", "--host", "203.0.113.7", "--port", "0"])
    assert found.exit_code == 1
    assert "cannot listen on 203.0.113.7" in found.output

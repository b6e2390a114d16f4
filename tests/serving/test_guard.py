"""Who may ask, and what happens to everybody else."""

import http.client
import json
import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from looprop.serving import app as serving
from looprop.serving import guard
from looprop.serving.export import as_script, standalone_page
from looprop.serving.guard import LARGEST_BODY, cookie_name, known_hosts, names_of_this_machine
from serving.conftest import Served

GOOD = json.dumps({"model": "embedded", "text": "good film"}).encode()
MARKUP = "<script>alert(1)</script>\"'&\u2028</script>"


def test_the_right_token_by_address_or_cookie_and_nothing_else(served: Served) -> None:
    without = served.headers(Cookie=None)
    assert served.request("GET", f"/?token={served.token}", headers=without)[0] == 200
    assert served.request("GET", "/", headers=served.headers())[0] == 200
    many = "/?" + "&".join(f"a{n}=b" for n in range(40))
    for path in ("/", "/explorer.js", "/api/about", "/nothing", "/?token=", f"/?token={served.token}x", many):
        status, body = served.request("GET", path, headers=without)
        assert status == 401
        assert b"token" in body


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1"}, 403),
        ({"Host": "127.0.0.1.evil.example:80"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Length": str(LARGEST_BODY + 1)}, 413),
        ({"Content-Length": "9" * 30}, 400),
        ({"Cookie": "looprop-token-80=wrong"}, 401),
        ({"Cookie": "\x01;=;;" * 50}, 401),
    ],
)
def test_requests_of_others_are_refused_before_they_are_read(
    served: Served, changes: dict[str, str], status: int
) -> None:
    assert served.request("POST", "/api/ask", GOOD, served.headers(**changes))[0] == status
    assert served.request("POST", "/api/ask", GOOD)[0] == 200


def test_names_of_this_machine() -> None:
    assert known_hosts("127.0.0.1", 80) >= {"127.0.0.1", "localhost:80"}
    assert "127.0.0.1" not in known_hosts("127.0.0.1", 8000)
    assert "box:8000" in known_hosts("box", 8000)
    assert "[fe80::1]:8000" in known_hosts("fe80::1", 8000)
    assert f"{names_of_this_machine()[0].lower()}:8000" in known_hosts("0.0.0.0", 8000)
    assert "evil.example:8000" not in known_hosts("0.0.0.0", 8000)
    assert "127.evil.example:8000" in known_hosts("127.evil.example", 8000)  # a name like any other, not this machine


@contextmanager
def idle(served: Served, count: int) -> Iterator[list[socket.socket]]:
    """Connections that have sent half a request without a token, or nothing."""
    with ExitStack() as stack:
        found = [
            stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=60)) for _ in range(count)
        ]
        for one in found[::2]:
            with suppress(OSError):  # closed already
                one.sendall(b"GET / HTTP/1.1\r\nHost: ")
        yield found


def is_closed(connection: socket.socket) -> bool:
    """Wait for the end of a connection on which the server has nothing to say."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_idle_connections_without_a_token_do_not_lock_the_owner_out(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "PATIENCE", 3600.0)
    with idle(served, 120) as connections:
        for _ in range(5):
            assert served.request("GET", "/")[0] == 200
            assert served.post("/api/ask", {"model": "embedded", "text": "good film"})[0] == 200
        assert all(map(is_closed, connections[: 120 - serving.MOST_STRANGERS]))  # the oldest
    assert served.request("GET", "/")[0] == 200


def test_connections_without_a_token_are_closed_after_a_while_and_those_with_one_are_not(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "PATIENCE", 5.0)  # the owner's token has to arrive within it
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as owner:
        head = "".join(f"{name}: {value}\r\n" for name, value in served.headers().items())
        owner.sendall(f"POST /api/ask HTTP/1.1\r\n{head}Content-Length: {len(GOOD)}\r\n\r\n".encode() + GOOD[:10])
        with idle(served, 20) as connections:
            assert all(map(is_closed, connections))
        owner.sendall(GOOD[10:])
        assert owner.recv(15) == b"HTTP/1.1 200 OK"


def test_requests_with_the_token_have_a_bound(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MOST_REQUESTS", 0)
    assert served.request("GET", "/")[0] == 503
    assert served.request("GET", "/", headers=served.headers(Cookie=None))[0] == 401


def test_two_servers_on_one_machine_keep_their_tokens_apart(served: Served) -> None:
    other = f"{cookie_name(served.port + 1)}={served.token}"
    assert served.request("GET", "/", headers=served.headers(Cookie=other))[0] == 401


def hostile(seed: int, served: Served) -> tuple[str, str, bytes | None, dict[str, str]]:
    """One request that means no good."""
    draw = random.Random(seed)
    path = draw.choice(
        ["/api/ask", "/api/without", "/api/explain", "/api/answer", "/api/page", "/api/picture", "/api/python",
         "/../../etc/passwd", "/explorer.js/..",
         "/%2e%2e/%2e%2e/etc/passwd", "/api//ask", "/assets/explorer.html", "/?token=%00", "/api/ask?token=x&token=y"]
    )  # fmt: skip
    values: list[Any] = [MARKUP, "", None, -1, 1e308, [[]] * 50, {"a": {"b": MARKUP}}, "x" * 30_000, "\x00", "\ud800"]
    values += ["../../etc/passwd", "/etc/hostname", served.vit, served.picture, "http://evil.example/x.png"]
    names = ["model", "text", "image", "target", "features", "answer", "part", "data", MARKUP]
    question: Any = {
        name: draw.choice(["embedded", "good film", "token", *values])
        for name in draw.sample(names, draw.randint(1, 6))
    }
    other = draw.choice(["struck", "methods", MARKUP])
    wrapped = {"question": question, other: draw.choice([*values, [0], ["cp-lrp"], True])}
    body = json.dumps(draw.choice([question, wrapped, [question], MARKUP])).encode()
    body = draw.choice([body, body[: len(body) // 2], b'{"text": NaN}', b"[" * 50_000, b"\xff\xfe", b"", body])
    changes: dict[str, str | None] = draw.choice(
        [{}, {}, {}, {"Host": "evil.example"}, {"Origin": "http://e"}, {"Cookie": None}]
    )
    headers = served.headers(**changes)
    return draw.choice(["POST", "POST", "POST", "GET", "PUT", "DELETE", "TRACE"]), path, body, headers


def test_two_hundred_hostile_requests_get_a_clear_status_and_leak_nothing(served: Served) -> None:
    for seed in range(200):
        status, body = served.request(*hostile(seed, served))
        assert status in (200, 400, 401, 403, 404, 405, 413, 415, 422), (seed, status, body)
        assert b"root:" not in body, seed
        assert b"Traceback" not in body, seed
        assert b"/site-packages/" not in body, seed
        assert b".py" not in body, seed
    assert served.request("POST", "/api/ask", GOOD)[0] == 200


def test_connections_that_break_off_leave_the_server_alone(served: Served) -> None:
    for cut in range(20):
        with socket.create_connection(("127.0.0.1", served.port)) as open_:
            lines = [f"{name}: {value}" for name, value in served.headers().items()]
            head = "\r\n".join(["POST /api/ask HTTP/1.1", *lines, f"Content-Length: {len(GOOD)}", "", ""]).encode()
            open_.sendall((head + GOOD)[: 10 + 15 * cut])
    assert served.request("POST", "/api/ask", GOOD)[0] == 200


def test_a_body_without_a_stated_length_is_bounded_too(served: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    chunks = (b"x" * 65536 for _ in range(LARGEST_BODY // 65536 + 2))
    connection.request("POST", "/api/ask", body=chunks, headers=served.headers(), encode_chunked=True)
    assert connection.getresponse().status == 413
    connection.close()


def test_a_token_in_a_cookie_of_two_is_looked_at_once(served: Served) -> None:
    cookie = f"{cookie_name(served.port)}=wrong"
    assert served.request("GET", f"/?token={served.token}", headers=served.headers(Cookie=cookie))[0] == 200


def test_websockets_are_refused(served: Served) -> None:
    headers = served.headers(Upgrade="websocket", Connection="Upgrade", **{"Sec-WebSocket-Version": "13"})
    assert served.request("GET", "/", headers={**headers, "Sec-WebSocket-Key": "x" * 24})[0] >= 200


def test_pages_forbid_whatever_is_not_theirs(served: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    connection.request("GET", "/", headers=served.headers())
    response = connection.getresponse()
    body = response.read()
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    assert "HttpOnly" in response.headers["Set-Cookie"]
    assert "samesite=strict" in response.headers["Set-Cookie"].lower()
    assert b"http://" not in body
    assert b"https://" not in body
    connection.close()


def test_nothing_in_a_saved_page_ends_its_data() -> None:
    page = standalone_page({"about": {"x": MARKUP}, "panels": [MARKUP]})
    assert "alert(1)</script>" not in page
    assert page.count("</script>") == 2
    assert json.loads(as_script(MARKUP)) == MARKUP


def test_a_number_that_json_has_not_is_named(served: Served) -> None:
    data = b'{"about": {"x": 1e999}, "panels": []}'  # which is read as infinity
    status, body = served.request("POST", "/api/page", data)
    assert status == 422
    assert "too large" in json.loads(body)["error"]

"""Access control: only pages of this server may ask, with its token, under the names of this machine.

Every request is checked before it is read: its Host (against rebinding: a foreign name that leads to this machine), its
Origin (against other pages in the same browser), its token, its size. The socket is opened before models are loaded, so
that a port in use is reported at once.
"""

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any

from starlette.datastructures import MutableHeaders, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from looprop.errors import InputError

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
LARGEST_BODY = 2**20
"""Bytes of one request; a text of so many characters is far more than a model reads."""
LARGER_BODIES = {"/api/picture": 6 * 2**20, "/api/page": 16 * 2**20}
"""Bytes of those that hold images, or all that a page shows."""
MOST_REQUESTS = 100
"""Requests with the token at once."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(24)


def cookie_name(port: int) -> str:
    """Browsers keep cookies by host, not by port: two servers on one machine must not take each other's."""
    return f"looprop-token-{port}"


def known_hosts(host: str, port: int) -> frozenset[str]:
    """The Host headers that are allowed: the names of this machine for itself, and beyond them the host that was asked
    for, or every name and address of this machine if all of them were.
    """
    names = set(LOOPBACK)
    if not is_loopback(host):
        names |= {_bracketed(name.lower()) for name in (names_of_this_machine() if is_everything(host) else [host])}
    return frozenset(f"{name}:{port}" for name in names) | (frozenset(names) if port == 80 else frozenset())


def is_loopback(host: str) -> bool:
    """Whether a host leads only to this machine.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "127.evil.example", "0.0.0.0")]
    [True, True, True, False, False]
    """
    address = _address(host)
    return host.lower() == "localhost" if address is None else address.is_loopback


def is_everything(host: str) -> bool:
    """Whether a host stands for all addresses of this machine."""
    address = _address(host)
    return address is not None and address.is_unspecified


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def names_of_this_machine() -> list[str]:
    """The name of this machine, and the addresses that the name leads to."""
    name = socket.gethostname()
    try:
        found = [str(entry[4][0]) for entry in socket.getaddrinfo(name, None)]
    except OSError:
        found = []
    return list(dict.fromkeys([name, *found]))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


class Guard:
    """An application that refuses everybody without access.

    strangers: what closes each connection that has not shown the token yet, by its client, the oldest first.
    """

    def __init__(self, inner: ASGIApp, *, token: str, host: str, port: int) -> None:
        self.inner, self.token = inner, token
        self.hosts, self.cookie = known_hosts(host, port), cookie_name(port)
        self.strangers: dict[Any, Callable[[], None]] = {}
        self._requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self.inner(scope, receive, send)
            return
        if scope["type"] != "http":  # no websockets here
            await send({"type": "websocket.close", "code": 1008})
            return
        if (refused := self._refusal(scope)) is not None:
            status, text = refused
            await PlainTextResponse(text, status, headers=HEADERS)(scope, receive, send)
            return
        kept = {"set-cookie": f"{self.cookie}={self.token}; HttpOnly; Path=/; SameSite=strict"}
        more = kept if scope["path"] == "/" else {}
        receive, send = _limited(receive, largest_body(scope["path"])), _with_headers(send, HEADERS | more)
        self._requests += 1
        try:
            await self.inner(scope, receive, send)
        finally:
            self._requests -= 1

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = _single(scope["headers"])
        if headers is None:
            return 400, "a header that must stand once stands twice"
        if headers.get("host", "").lower() not in self.hosts:
            return 403, "this server does not go by that name"
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in {f"http://{host}" for host in self.hosts}:
            return 403, "another page may not ask"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "another page may not ask"
        if not self._has_token(scope, headers):
            return 401, "the token is missing or wrong: open the address that looprop serve printed"
        self.strangers.pop(scope["client"], None)
        if self._requests >= MOST_REQUESTS:
            return 503, "too many requests at once: try again in a moment"
        if scope["method"] == "POST" and headers.get("content-type", "").split(";")[0].strip() != "application/json":
            return 415, "a question must be JSON"
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 12:
            return 400, "the length of the request is no number"
        if int(length) > largest_body(scope["path"]):
            return 413, f"a request may have {largest_body(scope['path']):,} bytes"
        return None

    def _has_token(self, scope: Scope, headers: dict[str, str]) -> bool:
        given = QueryParams(scope.get("query_string", b"")).getlist("token")
        given += [value for name, value in cookie_parser(headers.get("cookie", "")).items() if name == self.cookie]
        return any(hmac.compare_digest(one.encode("utf-8", "replace"), self.token.encode()) for one in given)


def _single(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str] | None:
    """Headers by name; None where one that decides stands twice."""
    found: dict[str, str] = {}
    for name, value in pairs:
        key = name.decode("latin-1").lower()
        if key in found and key in ("host", "origin", "content-length", "content-type"):
            return None
        found[key] = value.decode("latin-1")
    return found


def largest_body(path: str) -> int:
    """The bytes that a request to an address may have."""
    return LARGER_BODIES.get(path, LARGEST_BODY)


def _limited(receive: Receive, most: int) -> Receive:
    """The body of a request up to a bound, whatever length it stated."""
    seen = 0

    async def bounded() -> MutableMapping[str, Any]:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise TooLarge
        return message

    return bounded


class TooLarge(Exception):
    """A request whose body is larger than allowed."""


def _with_headers(send: Send, more: Mapping[str, str]) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(more)
        await send(message)

    return sending


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen()  # whoever opens the address before the models are loaded waits, and is not turned away
    except OSError as error:
        found.close()
        said = error.strerror or str(error)
        raise InputError(f"cannot listen on {host}:{port}: {said}; --port 0 takes a free one") from error
    return found


def address_of(host: str, port: int, token: str) -> str:
    """The address that a browser opens.

    >>> address_of("127.0.0.1", 8765, "abc")
    'http://127.0.0.1:8765/?token=abc'
    """
    return f"http://{_bracketed(host)}:{port}/?token={token}"


def address_to_open(host: str, port: int, token: str) -> str:
    """The address to print: of a server on all addresses the machine's own name stands for it."""
    return address_of(names_of_this_machine()[0] if is_everything(host) else host, port, token)

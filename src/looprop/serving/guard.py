"""Who may ask: only pages of this server, with its token, from the names that it is known by.

Every request is looked at before anything else is: its Host (against rebinding: a foreign name that leads to this
machine), its Origin (against other pages in the same browser), its token, its size.
"""

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
LARGEST_BODY = 2**20
"""Bytes of one request; a text of so many characters is far more than a model reads."""
LARGER_BODIES = {"/api/picture": 6 * 2**20, "/api/page": 16 * 2**20}
"""Bytes of those that hold images, or all that a page shows."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


def new_token() -> str:
    """One that nobody guesses."""
    return secrets.token_urlsafe(24)


def cookie_name(port: int) -> str:
    """Browsers keep cookies by host, not by port: two servers on one machine must not take each other's."""
    return f"looprop-token-{port}"


def known_hosts(host: str, port: int) -> frozenset[str]:
    """What the Host of a request may say: the names of this machine for itself, and beyond them the one that was asked
    for, or every name and address of this machine where all of them were.
    """
    names = set(LOOPBACK)
    if not is_loopback(host):
        names |= {_bracketed(name.lower()) for name in (names_of_this_machine() if is_everything(host) else [host])}
    return frozenset(f"{name}:{port}" for name in names) | (frozenset(names) if port == 80 else frozenset())


def is_loopback(host: str) -> bool:
    """Does a host lead to nobody but this machine?

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "127.evil.example", "0.0.0.0")]
    [True, True, True, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_everything(host: str) -> bool:
    """Does a host stand for all addresses of this machine?"""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


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
    """An application that answers only whom it may."""

    def __init__(self, inner: Application, *, token: str, host: str, port: int) -> None:
        self.inner, self.token = inner, token
        self.hosts, self.cookie = known_hosts(host, port), cookie_name(port)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Look at a request; hand it on, or say no."""
        if scope["type"] == "lifespan":
            await self.inner(scope, receive, send)
            return
        if scope["type"] != "http":  # no websockets here
            await send({"type": "websocket.close", "code": 1008})
            return
        refused = self._refusal(scope)
        if refused is not None:
            await _answer(send, *refused)
            return
        kept = f"{self.cookie}={self.token}; HttpOnly; Path=/; SameSite=strict"
        more = ((b"set-cookie", kept.encode()),) if scope["path"] == "/" else ()
        await self.inner(scope, _limited(receive, largest_body(scope["path"])), _with_headers(send, more))

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
        if scope["method"] == "POST" and headers.get("content-type", "").split(";")[0].strip() != "application/json":
            return 415, "a question must be JSON"
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 12:
            return 400, "the length of the request is no number"
        if int(length) > largest_body(scope["path"]):
            return 413, f"a request may have {largest_body(scope['path']):,} bytes"
        return None

    def _has_token(self, scope: Scope, headers: dict[str, str]) -> bool:
        try:
            query = parse_qs(scope.get("query_string", b"").decode("latin-1"), max_num_fields=16, errors="replace")
        except ValueError:  # more fields than any page of this server sends
            return False
        cookies = SimpleCookie()
        try:
            cookies.load(headers.get("cookie", ""))
        except CookieError:
            cookies.clear()
        given = [*query.get("token", []), *([cookies[self.cookie].value] if self.cookie in cookies else [])]
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
    """How many bytes a request to an address may have."""
    return LARGER_BODIES.get(path, LARGEST_BODY)


def _limited(receive: Receive, most: int) -> Receive:
    """What a request sends, up to a bound, whatever it said of its length."""
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
    """A request that goes on for longer than it may."""


def _with_headers(send: Send, more: Iterable[tuple[bytes, bytes]]) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *HEADERS, *more]
        await send(message)

    return sending


async def _answer(send: Send, status: int, text: str) -> None:
    body = text.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode()), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

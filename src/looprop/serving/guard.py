"""Who may ask: only pages of this server, with its token, from the names that it is known by.

Every request is looked at before anything else is: its Host (against rebinding: a foreign name that leads to this
machine), its Origin (against other pages in the same browser), its token, its size.
"""

import hmac
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "looprop-token"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
LARGEST_BODY = 2**20
"""Bytes of one request; a text of so many characters is far more than a model reads."""
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


def known_hosts(host: str, port: int) -> frozenset[str]:
    """What the Host of a request may say: the names of this machine for itself, or the one that was asked for."""
    names = LOOPBACK if is_loopback(host) else (*LOOPBACK, f"[{host}]" if ":" in host else host)
    return frozenset(f"{name}:{port}" for name in names) | (frozenset(names) if port == 80 else frozenset())


def is_loopback(host: str) -> bool:
    """Does a host lead to nobody but this machine?"""
    return host in ("localhost", "::1") or host.startswith("127.")


class Guard:
    """An application that answers only whom it may."""

    def __init__(self, inner: Application, *, token: str, hosts: Iterable[str]) -> None:
        self.inner, self.token, self.hosts = inner, token, frozenset(hosts)

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
        await self.inner(scope, _limited(receive), _with_headers(send))

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
        if int(length) > LARGEST_BODY:
            return 413, f"a request may have {LARGEST_BODY:,} bytes"
        return None

    def _has_token(self, scope: Scope, headers: dict[str, str]) -> bool:
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"), max_num_fields=16, errors="replace")
        cookies = SimpleCookie()
        try:
            cookies.load(headers.get("cookie", ""))
        except CookieError:
            cookies.clear()
        given = [*query.get("token", []), *([cookies[COOKIE].value] if COOKIE in cookies else [])]
        return any(hmac.compare_digest(one.encode(), self.token.encode()) for one in given)


def _single(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str] | None:
    """Headers by name; None where one that decides stands twice."""
    found: dict[str, str] = {}
    for name, value in pairs:
        key = name.decode("latin-1").lower()
        if key in found and key in ("host", "origin", "content-length", "content-type"):
            return None
        found[key] = value.decode("latin-1")
    return found


def _limited(receive: Receive) -> Receive:
    """What a request sends, up to a bound, whatever it said of its length."""
    seen = 0

    async def bounded() -> MutableMapping[str, Any]:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > LARGEST_BODY:
            raise TooLarge
        return message

    return bounded


class TooLarge(Exception):
    """A request that goes on for longer than it may."""


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *HEADERS]
        await send(message)

    return sending


async def _answer(send: Send, status: int, text: str) -> None:
    body = text.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode()), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

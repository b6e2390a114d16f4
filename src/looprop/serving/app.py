"""The addresses of the explorer: its page, and what that page asks.

GET  /                     the page          GET /explorer.js, /explorer.css
GET  /api/about            models, methods, features
POST /api/ask              {question} -> the text with its features
POST /api/without          {question, struck} -> what the model really says without them
POST /api/answer           {question, struck} -> what a language model says without them
POST /api/explain          {question, methods} -> one JSON object per line, as they come; closing it stops the work
POST /api/page             {question, data} -> a page of its own that needs no server
"""

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from looprop.errors import InputError, LoopropError
from looprop.methods.names import CATALOGUE
from looprop.serving.export import standalone_page
from looprop.serving.guard import COOKIE, Guard, TooLarge
from looprop.serving.questions import (
    FEATURES,
    LONGEST_TEXT,
    Asked,
    Question,
    ask,
    explained,
    interruptible,
    read_methods,
    read_places,
    read_question,
)
from looprop.serving.worker import Busy, Worker, one_step
from looprop.workbench import Workbench

REMEMBERED = 16
"""Questions whose values are kept, the latest asked."""
LONGEST_WAIT = 600.0
"""Seconds that one request may take."""
SHOWN = ("cp-lrp", "attnlrp", "looprop")
"""Methods that a page shows at first, beside leave-one-out."""

_log = logging.getLogger("looprop.serving")

Handler = Callable[[Request], Awaitable[Response]]


class Explorer:
    """The models that were given on the command line, one worker, and the questions asked last."""

    def __init__(self, benches: Mapping[str, Workbench], *, token: str) -> None:
        self.worker = Worker()
        self.benches = {name: interruptible(bench, self.worker.check) for name, bench in benches.items()}
        self.token = token
        self._known: OrderedDict[Question, Asked] = OrderedDict()

    def application(self, hosts: frozenset[str]) -> Guard:
        """The whole server."""
        routes = [
            Route("/", self._page),
            Route("/explorer.js", self._asset("explorer.js", "text/javascript")),
            Route("/explorer.css", self._asset("explorer.css", "text/css")),
            Route("/api/about", _safely(self._about)),
            Route("/api/ask", _safely(self._ask), methods=["POST"]),
            Route("/api/without", _safely(self._without), methods=["POST"]),
            Route("/api/answer", _safely(self._answer), methods=["POST"]),
            Route("/api/explain", _safely(self._explain), methods=["POST"]),
            Route("/api/page", _safely(self._export), methods=["POST"]),
        ]

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            self.worker.start()
            try:
                yield
            finally:
                self.worker.end()

        return Guard(Starlette(routes=routes, lifespan=lifespan), token=self.token, hosts=hosts)

    async def _page(self, request: Request) -> Response:
        response = Response(_read("explorer.html"), media_type="text/html")
        response.set_cookie(COOKIE, self.token, httponly=True, samesite="strict")
        return response

    def _asset(self, name: str, kind: str) -> Handler:
        async def send(request: Request) -> Response:
            return Response(_read(name), media_type=kind)

        return send

    async def _about(self, request: Request) -> Response:
        models = [
            {
                "name": name,
                "generates": bench.adapter.target_words == "token",
                "labels": [label for _, label in sorted(bench.labels.items())][:200],
            }
            for name, bench in self.benches.items()
        ]
        methods = [{"name": about.name, "title": about.title, "cost": about.cost} for about in CATALOGUE.values()]
        about = {"models": models, "methods": methods, "shown": SHOWN, "features": FEATURES, "longest": LONGEST_TEXT}
        return JSONResponse(about)

    async def _ask(self, request: Request) -> Response:
        question = read_question(await _body(request))
        return JSONResponse(await self._soon(lambda: self._asked(question).describe()))

    async def _without(self, request: Request) -> Response:
        question, struck = _parts(await _body(request), "struck")

        def said() -> dict[str, Any]:
            asked = self._asked(question)
            return asked.without(read_places(struck, asked.count))

        return JSONResponse(await self._soon(said))

    async def _answer(self, request: Request) -> Response:
        question, struck = _parts(await _body(request), "struck")

        def said() -> dict[str, Any]:
            asked = self._asked(question)
            return asked.new_answer(read_places(struck, asked.count))

        return JSONResponse(await self._soon(said))

    async def _explain(self, request: Request) -> Response:
        question, names = _parts(await _body(request), "methods")
        methods = read_methods(names)
        asked = await self._soon(lambda: self._asked(question))

        async def lines() -> AsyncIterator[bytes]:
            try:
                async with asyncio.timeout(LONGEST_WAIT):
                    async for found in self.worker.run(explained(asked, methods)):
                        yield _line(found)
            except TimeoutError:
                yield _line({"error": f"stopped after {LONGEST_WAIT:.0f} seconds"})
            except Busy:
                yield _line({"error": "too many questions at once"})
            except Exception as error:
                yield _line({"error": _said(error)[1]})

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def _export(self, request: Request) -> Response:
        data = await _body(request)
        if not isinstance(data, Mapping):
            raise InputError("a page is made of a JSON object")
        return Response(standalone_page(data), media_type="text/html")

    def _asked(self, question: Question) -> Asked:
        """A question bound to its model; asked in the worker only."""
        if question not in self._known:
            self._known[question] = ask(self.benches, question)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(question)
        return self._known[question]

    async def _soon(self, function: Callable[[], Any]) -> Any:
        """What a short question gives, before all long ones."""
        async with asyncio.timeout(LONGEST_WAIT):
            async for value in self.worker.run(one_step(function), urgent=True):
                return value
        raise Busy


def _safely(handler: Handler) -> Handler:
    """A handler whose errors are answers: one line, no path, no place in the code."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception as error:
            status, text = _said(error)
            return JSONResponse({"error": text}, status_code=status)

    return handle


def _said(error: Exception) -> tuple[int, str]:
    if isinstance(error, TooLarge):
        return 413, "the request is too large"
    if isinstance(error, Busy):
        return 503, "too many questions at once: try again in a moment"
    if isinstance(error, TimeoutError):
        return 503, f"stopped after {LONGEST_WAIT:.0f} seconds"
    if isinstance(error, LoopropError):
        return 422, " ".join(str(error).split())[:500]
    _log.error("unexpected %s", type(error).__name__, exc_info=error)
    return 500, "something went wrong here; the terminal says what"


async def _body(request: Request) -> Any:
    """The JSON of a request; numbers that are none and nesting without end raise."""
    try:
        return json.loads(await request.body(), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InputError("the request is no JSON") from error


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _parts(data: Any, other: str) -> tuple[Question, Any]:
    if not isinstance(data, Mapping) or set(data) != {"question", other}:
        raise InputError(f"a request must hold question and {other}")
    return read_question(data["question"]), data[other]


def _line(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data).encode() + b"\n"


def _read(name: str) -> bytes:
    return files("looprop.serving").joinpath("assets", name).read_bytes()

"""The addresses of the explorer: its page, and the requests of that page.

GET  /                     the page, its scripts and its style
GET  /api/about            models, methods, features, images
POST /api/picture          {data} -> {name}: an image given to the page
POST /api/ask              {question} -> the input with its features
POST /api/without          {question, struck} -> the model's output without them
POST /api/answer           {question, struck} -> a language model's answer without them
POST /api/explain          {question, methods} -> one JSON object per line, as they come; closing it stops the work
POST /api/python           {question, methods, struck} -> the lines that give the same numbers
POST /api/page             {about, panels} -> a page of its own that needs no server
"""

import asyncio
import json
import socket
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from looprop.errors import InputError
from looprop.methods.registry import CATALOGUE
from looprop.models.answers import Answer
from looprop.serving.asked import REFERENCES, Asked, Explaining, ask, bench_of, generates, reads_images
from looprop.serving.export import SCRIPTS, asset, explorer_page, python_lines, standalone_page
from looprop.serving.guard import Guard
from looprop.serving.pictures import LARGEST_PICTURE, Pictures
from looprop.serving.requests import (
    FEATURES,
    LONGEST_TEXT,
    Handler,
    Question,
    body,
    parts,
    read_methods,
    read_places,
    read_question,
    safely,
    said,
    while_there,
)
from looprop.serving.worker import Busy, Level, QueueWorker, interruptible, one_step
from looprop.workbench import Workbench

REMEMBERED = 16
"""Questions whose values are kept, the latest asked."""
LONGEST_WAIT = 600.0
"""Seconds that one request may take."""
SHOWN = {"texts": ("cp-lrp", "attnlrp", "looprop"), "images": ("grad-x-input", "cp-lrp", "attnlrp")}
"""Methods that a page shows at first, beside leave-one-out."""


class Explorer:
    """The models that were given on the command line, one worker, and the questions asked last."""

    def __init__(
        self, benches: Mapping[str, Workbench], *, token: str, images: Iterable[str] = (), trusted: bool = False
    ) -> None:
        for bench in benches.values():
            reads_images(bench)  # raises for a model that a page cannot ask
        self.worker = QueueWorker()
        self.benches = {name: interruptible(bench, self.worker.check) for name, bench in benches.items()}
        self.pictures = Pictures(images)
        self.token, self.trusted = token, trusted
        self._known: OrderedDict[Question, Asked] = OrderedDict()

    def application(self, host: str, port: int) -> Guard:
        """The whole server, as it is known from outside."""
        posted: dict[str, Handler] = {
            "picture": self._picture,
            "ask": self._ask,
            "without": partial(self._struck, Asked.without, Level.STRIKE),
            "answer": partial(self._struck, Asked.new_answer, Level.ASK),
            "explain": self._explain,
            "python": self._python,
            "page": self._export,
        }
        routes = [
            Route("/", self._page),
            Route("/explorer.css", _sending("explorer.css", "text/css")),
            *(Route(f"/{name}", _sending(name, "text/javascript")) for name in SCRIPTS),
            Route("/api/about", safely(self._about)),
            *(Route(f"/api/{name}", safely(handler), methods=["POST"]) for name, handler in posted.items()),
        ]

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            try:
                yield
            finally:
                self.worker.end()
                self.worker.join()

        return Guard(Starlette(routes=routes, lifespan=lifespan), token=self.token, host=host, port=port)

    async def _page(self, request: Request) -> Response:
        return Response(explorer_page(), media_type="text/html")

    async def _about(self, request: Request) -> Response:
        models = [
            {
                "name": name,
                "reads": bench.adapter.noun,
                "generates": generates(bench),
                "labels": [label for _, label in sorted(bench.labels.items())][:200],
                "shown": SHOWN[bench.adapter.noun],
            }
            for name, bench in self.benches.items()
        ]
        methods = [
            {"name": one.name, "title": one.title, "cost": one.cost, "summary": one.summary}
            for one in CATALOGUE.values()
        ]
        about = {"models": models, "methods": methods, "references": REFERENCES, "images": self.pictures.names}
        return JSONResponse({**about, "features": FEATURES, "longest": LONGEST_TEXT, "largest": LARGEST_PICTURE})

    async def _picture(self, request: Request) -> Response:
        data = await body(request)
        if not isinstance(data, Mapping) or set(data) != {"data"}:
            raise InputError("a request must hold data")
        name = await self._soon(request, lambda: self.pictures.add(data["data"]), Level.ASK)
        return JSONResponse({"name": name})

    async def _ask(self, request: Request) -> Response:
        question = read_question(await body(request))
        return JSONResponse(await self._soon(request, lambda: self._asked(question).describe(), Level.ASK))

    async def _struck(self, find: Callable[[Asked, list[int]], Any], level: Level, request: Request) -> Response:
        """Answer a request about a question without the features that are struck out."""
        question, (struck,) = parts(await body(request), "struck")

        def found() -> Any:
            asked = self._asked(question)
            return find(asked, read_places(struck, asked.count))

        return JSONResponse(await self._soon(request, found, level))

    async def _explain(self, request: Request) -> Response:
        question, (names,) = parts(await body(request), "methods")
        methods = read_methods(names)
        asked = await self._soon(request, lambda: self._asked(question), Level.ASK)
        job = Explaining(asked, methods, self.worker.rows)

        async def lines() -> AsyncIterator[bytes]:
            running = self.worker.run(job.steps(), level=job.level, progress=job.progress)
            try:
                async with asyncio.timeout(LONGEST_WAIT), aclosing(while_there(request, running)) as found:
                    async for one in found:
                        yield _line(one)
            except ClientDisconnect:
                return
            except Exception as error:
                yield _line({"error": said(error)[1]})

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def _python(self, request: Request) -> Response:
        question, (names, struck) = parts(await body(request), "methods", "struck")
        bench, places = bench_of(self.benches, question), read_places(struck, 10**9)
        uploaded = bool(question.image) and question.image not in self.pictures.names
        methods = list(read_methods(names))
        lines = python_lines(question, bench, methods, places, uploaded=uploaded, trusted=self.trusted)
        return JSONResponse({"python": lines})

    async def _export(self, request: Request) -> Response:
        data = await body(request)
        if not isinstance(data, Mapping):
            raise InputError("a page is made of a JSON object")
        return Response(standalone_page(data), media_type="text/html")

    def _asked(self, question: Question) -> Asked:
        """A question bound to its model; asked in the worker only."""
        if question not in self._known:
            self._known[question] = ask(self.benches, question, self.pictures, self._answered(question))
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        self._known.move_to_end(question)
        return self._known[question]

    def _answered(self, question: Question) -> Answer | None:
        """The answer to the same prompt, if another part of it or other features were asked about."""
        like = (question.model, question.text, question.answer)
        found = (a.answer for q, a in self._known.items() if (q.model, q.text, q.answer) == like)
        return next(found, None)

    async def _soon(self, request: Request, function: Callable[[], Any], level: Level) -> Any:
        """The result of a job of one step, which stops when the client disconnects."""
        running = self.worker.run(one_step(function), level=level)
        async with asyncio.timeout(LONGEST_WAIT), aclosing(while_there(request, running)) as found:
            async for value in found:
                return value
        raise Busy


def _sending(name: str, kind: str) -> Handler:
    async def send(request: Request) -> Response:
        return Response(asset(name), media_type=kind)

    return send


def _line(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data).encode() + b"\n"


MOST_STRANGERS = 100
"""Connections that have not shown the token; of more, the oldest is closed."""
PATIENCE = 10.0
"""Seconds in which a connection has to show the token."""


class Connection(H11Protocol):
    """A connection, which is closed if it does not show the token soon: it could take the place of one that does."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let a stranger in for a while."""
        super().connection_made(transport)
        self.strangers: dict[Any, Callable[[], None]] = self.config.app.strangers  # type: ignore[union-attr]
        self.strangers[self.client] = transport.abort
        self._end = self.loop.call_later(PATIENCE, self._close_stranger, self.client)
        if len(self.strangers) > MOST_STRANGERS:
            self._close_stranger(next(iter(self.strangers)))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._end.cancel()
        self.strangers.pop(self.client, None)
        super().connection_lost(exc)

    def _close_stranger(self, client: Any) -> None:
        self.strangers.pop(client, lambda: None)()


class Server(uvicorn.Server):
    """A server that stops its worker with the first signal."""

    def __init__(self, explorer: Explorer, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._explorer = explorer

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ctrl-C: nothing more is computed."""
        self._explorer.worker.end()
        super().handle_exit(sig, frame)


def server(explorer: Explorer, listening: socket.socket, host: str, *, debug: bool = False) -> Server:
    """The server, ready to run on a socket that is taken already."""
    config = uvicorn.Config(
        explorer.application(host, listening.getsockname()[1]),
        log_level="debug" if debug else "error",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
        http=Connection,
        ws="none",
    )
    return Server(explorer, config)


def run(explorer: Explorer, listening: socket.socket, host: str, *, debug: bool = False) -> None:
    """Serve until Ctrl-C."""
    with suppress(KeyboardInterrupt):
        server(explorer, listening, host, debug=debug).run(sockets=[listening])

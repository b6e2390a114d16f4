"""Read requests, report errors in one line, and notice clients that have disconnected."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from looprop.errors import InputError, LoopropError
from looprop.serving.guard import TooLarge
from looprop.serving.questions import Question, read_question
from looprop.serving.worker import Busy

Handler = Callable[[Request], Awaitable[Response]]

_log = logging.getLogger("looprop.serving")


def safely(handler: Handler) -> Handler:
    """A handler that answers errors with one line, without paths or places in the code."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception as error:
            status, text = said(error)
            return JSONResponse({"error": text}, status_code=status)

    return handle


def said(error: Exception) -> tuple[int, str]:
    """The status and the text of an error."""
    if isinstance(error, TooLarge):
        return 413, "the request is too large"
    if isinstance(error, Busy):
        return 503, "too many questions at once: try again in a moment"
    if isinstance(error, TimeoutError):
        return 503, "stopped: it took longer than a request may"
    if isinstance(error, LoopropError):
        return 422, " ".join(str(error).split())[:500]
    _log.error("unexpected %s", type(error).__name__, exc_info=error)
    return 500, "something went wrong here; the terminal says what"


async def body(request: Request) -> Any:
    """The JSON of a request; NaN, infinite numbers and endless nesting raise."""
    try:
        return json.loads(await request.body(), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InputError("the request is no JSON") from error


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def parts(data: Any, *others: str) -> tuple[Question, list[Any]]:
    """A question and the other fields of a request."""
    if not isinstance(data, Mapping) or set(data) != {"question", *others}:
        raise InputError(f"a request must hold question and {' and '.join(others)}")
    return read_question(data["question"]), [data[name] for name in others]


async def while_there(request: Request, values: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
    """Yield values while the client is connected, then close their generator."""
    gone = asyncio.ensure_future(_gone(request))
    try:
        while True:
            step = asyncio.ensure_future(anext(values))
            try:
                await asyncio.wait({gone, step}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not step.done():
                    step.cancel()
                    with suppress(asyncio.CancelledError, StopAsyncIteration):
                        await step
            if step.cancelled():
                raise ClientDisconnect
            try:
                value = step.result()
            except StopAsyncIteration:
                return
            yield value
    finally:
        gone.cancel()
        if isinstance(values, AsyncGenerator):
            await values.aclose()


async def _gone(request: Request) -> None:
    """Return when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass

"""Read requests, check their questions before anything else sees them, report errors in one line, and notice clients
that have disconnected.
"""

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from looprop.errors import InputError, LoopropError, UnknownNameError
from looprop.methods.base import Method
from looprop.methods.registry import CATALOGUE, make_method
from looprop.naming import split_name
from looprop.serving.guard import TooLarge
from looprop.serving.worker import Busy

LONGEST_TEXT = 20_000
"""Characters."""
MOST_TOKENS = 200
"""Of a generated answer."""
MOST_METHODS = 12
FEATURES = ("token", "word", "sentence", "paragraph", "line", "turn")


@dataclass(frozen=True)
class Question:
    """A question about one input.

    text: or the name of an image. target: as on the command line, `continuation:` and a text for what a language model
    might say; empty for what is predicted. answer: of a language model, explain what it says to the prompt, in so many
    tokens at most; 0 for a text as it is. part: of that answer, tokens from:to; empty for all.
    """

    model: str
    text: str = ""
    image: str = ""
    target: str = ""
    features: str = "token"
    answer: int = 0
    part: str = ""

    def __post_init__(self) -> None:
        if not self.text.strip() and not self.image:
            raise InputError("the text is empty: nothing to explain")
        for text in (self.text, self.target):
            if len(text) > LONGEST_TEXT:
                raise InputError(f"a text may have {LONGEST_TEXT:,} characters here, this one has {len(text):,}")
        if self.features not in FEATURES:
            raise UnknownNameError("features", self.features[:40], FEATURES)
        if not 0 <= self.answer <= MOST_TOKENS:
            raise InputError(f"an answer may have 0 to {MOST_TOKENS} tokens, got {self.answer}")
        if self.part and not (self.answer and re.fullmatch(r"\d{1,4}:\d{1,4}", self.part)):
            raise InputError("part must be tokens of an answer, such as 2:5")

    @property
    def span(self) -> slice:
        """The tokens of the answer that are asked about."""
        return slice(*map(int, self.part.split(":"))) if self.part else slice(None)


def read_question(data: Any) -> Question:
    """A question from JSON; anything else raises."""
    known = {f.name: f.type for f in fields(Question)}
    if not isinstance(data, Mapping):
        raise InputError("a question must be a JSON object")
    for name, value in data.items():
        if name not in known:
            raise UnknownNameError("field of a question", str(name)[:40], known)
        if type(value) is not (int if name == "answer" else str):
            raise InputError(f"{name} must be {'a whole number' if name == 'answer' else 'a text'}")
    if "model" not in data or not {"text", "image"} & set(data):
        raise InputError("a question needs a model and a text, or an image")
    return Question(**data)


def read_places(data: Any, count: int) -> list[int]:
    """Numbers of features, each once; anything else raises."""
    if not isinstance(data, list) or any(type(i) is not int for i in data):
        raise InputError("struck features must be a list of whole numbers")
    if any(not 0 <= i < count for i in data):
        raise InputError(f"features are numbered 0 to {count - 1}")
    return sorted(set(data))


def read_methods(data: Any) -> dict[str, Method]:
    """Methods by name; anything else raises. A page may name no files and no plans."""
    if not isinstance(data, list) or not all(isinstance(name, str) for name in data) or len(data) > MOST_METHODS:
        raise InputError(f"methods must be a list of at most {MOST_METHODS} names")
    for name in data:
        if split_name(name)[0] not in CATALOGUE or "plan" in split_name(name)[1]:
            raise UnknownNameError("method", name[:60], CATALOGUE)
    return {name: make_method(name) for name in data}


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

"""The explorer on a socket, until Ctrl-C: then whatever is computed is stopped first, so that no page holds it up."""

import socket
from contextlib import suppress
from types import FrameType

import uvicorn

from looprop.serving.app import Explorer

MOST_CONNECTIONS = 100


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
        limit_concurrency=MOST_CONNECTIONS,
    )
    return Server(explorer, config)


def run(explorer: Explorer, listening: socket.socket, host: str, *, debug: bool = False) -> None:
    """Serve until Ctrl-C."""
    with suppress(KeyboardInterrupt):
        server(explorer, listening, host, debug=debug).run(sockets=[listening])

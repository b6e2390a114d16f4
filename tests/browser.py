"""A headless Chromium for tests, driven over two pipes with the DevTools protocol: real mouse, real styles, real
console.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any, Self

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--remote-debugging-pipe",
]
PATIENCE = 60.0  # seconds; a busy machine takes its time


class Browser:
    """One browser with one page. `errors` holds everything that the page's console complained about."""

    def __init__(self, chromium: str) -> None:
        self.errors: list[str] = []
        self._session: str | None = None
        self._folder = tempfile.mkdtemp(prefix="looprop-chromium-")
        self._number = 0
        self._buffer = b""
        self._loaded = False
        self._home = "file:"
        theirs_in, self._write = _pipe()
        self._read, theirs_out = _pipe()
        # Chromium reads commands from file descriptor 3 and answers on 4.
        actions = [
            (os.POSIX_SPAWN_DUP2, theirs_in, 3),
            (os.POSIX_SPAWN_DUP2, theirs_out, 4),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        arguments = [chromium, *FLAGS, f"--user-data-dir={self._folder}", "--window-size=1200,900", "about:blank"]
        self._pid = os.posix_spawn(chromium, arguments, dict(os.environ), file_actions=actions, setpgroup=0)
        os.close(theirs_in)
        os.close(theirs_out)
        pages = [target for target in self._call("Target.getTargets")["targetInfos"] if target["type"] == "page"]
        target = pages[0]["targetId"] if pages else self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._write)
        os.close(self._read)
        os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        shutil.rmtree(self._folder, ignore_errors=True)

    def open(self, path: Path | str, *, dark: bool = False, width: int = 1200, height: int = 900) -> None:
        """Opens a file, or an address of a server, with the system's preference for light or dark set; forgets earlier
        errors. A page of a file may ask nobody, one of a server that server only.
        """
        self.errors.clear()
        address = path if isinstance(path, str) else path.resolve().as_uri()
        self._home = address.partition("?")[0] if isinstance(path, str) else "file:"
        self._call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self._loaded = False
        self._call("Page.navigate", url=address)
        end = time.monotonic() + PATIENCE
        while not self._loaded:
            self._handle(self._receive(end))

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description", "JavaScript error"))
        return answer["result"].get("value")

    def wait(self, script: str) -> Any:
        """The value of a JavaScript expression as soon as it is true."""
        end = time.monotonic() + PATIENCE
        while not (found := self.evaluate(script)):
            if time.monotonic() > end:
                raise TimeoutError(f"not within {PATIENCE:g} seconds: {script}")
            time.sleep(0.02)
        return found

    def hover(self, selector: str, index: int = 0) -> None:
        """Moves the mouse to the middle of an element."""
        self._mouse("mouseMoved", *self._middle(selector, index))

    def click(self, selector: str, index: int = 0) -> None:
        """Clicks on the middle of an element with the mouse."""
        place = self._middle(selector, index)
        self._mouse("mouseMoved", *place)
        self._mouse("mousePressed", *place)
        self._mouse("mouseReleased", *place)

    def screenshot(self, path: Path, *, full: bool = False) -> None:
        """Writes a PNG of the window, or of the whole page."""
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", captureBeyondViewport=full)["data"]))

    def media(self, kind: str) -> None:
        """Shows the page as on "screen" or on "print"."""
        self._call("Emulation.setEmulatedMedia", media=kind)

    def _middle(self, selector: str, index: int) -> tuple[float, float]:
        found = f"document.querySelectorAll({json.dumps(selector)})[{index}]"
        self.evaluate(f"{found}.scrollIntoView({{block: 'center'}})")
        box = self.evaluate(f"(b => [b.left + b.width / 2, b.top + b.height / 2])({found}.getClientRects()[0])")
        return box[0], box[1]

    def _mouse(self, kind: str, x: float, y: float) -> None:
        pressed = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **pressed)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE
        while (answer := self._receive(end)).get("id") != number:
            self._handle(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _receive(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError(f"Chromium did not answer within {PATIENCE:g} seconds")
            if not (chunk := os.read(self._read, 1 << 20)):
                raise RuntimeError("Chromium ended unexpectedly")
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def _handle(self, event: dict[str, Any]) -> None:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            self.errors.append(str(parameters["exceptionDetails"].get("exception", {}).get("description", parameters)))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in {"error", "warning", "assert"}:
            self.errors.append(" ".join(str(a.get("value", a.get("description"))) for a in parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in {"error", "warning"}:
            self.errors.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith(
            ("file:", "data:", "about:", "blob:", self._home)
        ):
            self.errors.append(f"request to {parameters['request']['url']}")


def _pipe() -> tuple[int, int]:
    """A pipe whose ends are all above 10, so that none of them is in the way of 3 and 4."""
    ends = []
    for end in os.pipe():
        ends.append(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10))
        os.close(end)
    return ends[0], ends[1]

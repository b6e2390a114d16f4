"""A headless Chromium for tests, driven by Playwright: real mouse, real styles, real console.

Playwright waits until what is clicked stands still and is really hit, as a person would.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar

from playwright.sync_api import CDPSession, Locator, Page, Request, sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
T = TypeVar("T")
PATIENCE = 60.0  # seconds; a busy machine takes its time


class Browser:
    """One browser with one page. `errors` holds everything that the page's console complained about."""

    def __init__(self, chromium: str) -> None:
        self.errors: list[str] = []
        self._home = "file:"
        # Playwright keeps an event loop running in its thread, where nothing else could then run one.
        self._thread = ThreadPoolExecutor(max_workers=1)
        try:
            self._in_thread(lambda: self._start(chromium))
        except BaseException:
            self._thread.shutdown()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._in_thread(self._end)
        self._thread.shutdown()

    def open(self, path: Path | str, *, dark: bool = False, width: int = 1200, height: int = 900) -> None:
        """Opens a file, or an address of a server, with the system's preference for light or dark set; forgets earlier
        errors. A page of a file may ask nobody, one of a server that server only.
        """
        self.errors.clear()
        address = path if isinstance(path, str) else path.resolve().as_uri()
        self._home = address.partition("?")[0] if isinstance(path, str) else "file:"

        def opening() -> None:
            self._page.emulate_media(media="null", color_scheme="dark" if dark else "light")
            self._page.set_viewport_size({"width": width, "height": height})
            self._page.goto(address, wait_until="load")

        self._in_thread(opening)

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression. Asked of the browser itself: a page may forbid what it did not bring
        along, and Playwright's own way is among that.
        """
        given = {"expression": script, "returnByValue": True, "awaitPromise": True}
        answer = self._in_thread(lambda: self._protocol.send("Runtime.evaluate", given))
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
        self._in_thread(lambda: self._element(selector, index).hover())

    def click(self, selector: str, index: int = 0) -> None:
        """Clicks on the middle of an element with the mouse."""
        self._in_thread(lambda: self._element(selector, index).click())

    def press(self, selector: str, index: int = 0) -> None:
        """Moves the mouse to the middle of an element and presses its button, which stays down."""
        self.hover(selector, index)
        self._in_thread(lambda: self._page.mouse.down())

    def release(self) -> None:
        """Releases the mouse button where the mouse is."""
        self._in_thread(lambda: self._page.mouse.up())

    def key(self, name: str) -> None:
        """Presses a key, such as "Enter" or "Shift+ArrowRight", where the keyboard is."""
        self._in_thread(lambda: self._page.keyboard.press(name))

    def upload(self, selector: str, path: Path | str) -> None:
        """Gives a file to a field for files."""
        self._in_thread(lambda: self._page.set_input_files(selector, path))

    def screenshot(self, path: Path, *, full: bool = False) -> None:
        """Writes a PNG of the window, or of the whole page."""
        self._in_thread(lambda: self._page.screenshot(path=path, full_page=full))

    def media(self, kind: str) -> None:
        """Shows the page as on "screen" or on "print"."""
        self._in_thread(lambda: self._page.emulate_media(media="print" if kind == "print" else "screen"))

    def _start(self, chromium: str) -> None:
        self._playwright = sync_playwright().start()
        try:
            self._browser = self._playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        except BaseException:
            self._playwright.stop()
            raise
        self._page: Page = self._browser.new_page()
        self._page.set_default_timeout(1000 * PATIENCE)
        self._page.on("request", self._asked)
        self._protocol: CDPSession = self._page.context.new_cdp_session(self._page)
        self._protocol.on("Runtime.exceptionThrown", self._threw)
        self._protocol.on("Runtime.consoleAPICalled", self._complained)
        self._protocol.on("Log.entryAdded", self._logged)
        for domain in ("Runtime", "Log"):
            self._protocol.send(f"{domain}.enable")

    def _end(self) -> None:
        self._browser.close()
        self._playwright.stop()

    def _in_thread(self, work: Callable[[], T]) -> T:
        return self._thread.submit(work).result()

    def _element(self, selector: str, index: int) -> Locator:
        return self._page.locator(selector).nth(index)

    def _asked(self, request: Request) -> None:
        if not request.url.startswith(("file:", "data:", "about:", "blob:", self._home)):
            self.errors.append(f"request to {request.url}")

    def _threw(self, event: dict[str, Any]) -> None:
        self.errors.append(str(event["exceptionDetails"].get("exception", {}).get("description", event)))

    def _complained(self, event: dict[str, Any]) -> None:
        if event["type"] in {"error", "warning", "assert"}:
            self.errors.append(" ".join(str(a.get("value", a.get("description"))) for a in event["args"]))

    def _logged(self, event: dict[str, Any]) -> None:
        if event["entry"]["level"] in {"error", "warning"}:
            self.errors.append(event["entry"]["text"])

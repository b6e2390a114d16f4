"""Takes the pictures of README and docs: `python tests/screenshots.py`, in an environment with looprop and a Chromium."""

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from typer.testing import CliRunner

from browser import Browser
from looprop.cli.main import app
from looprop.display.terminal import comparison
from looprop.explanation import Explanations
from looprop.workbench import load

IMAGES = Path(__file__).parents[1] / "docs" / "images"
TEXT = "A warm, funny and quietly moving film."
METHODS = ("loo", "looprop", "cp-lrp", "attnlrp", "grad-x-input")


def run(*arguments: str) -> None:
    result = CliRunner().invoke(app, list(arguments))
    if result.exit_code:
        sys.exit(result.output)


def photograph(browser: Browser, page: Path, name: str, *, dark: bool = False, height: int = 700) -> None:
    browser.open(page, dark=dark, width=1100, height=height)
    browser.screenshot(IMAGES / f"{name}.png")
    if browser.errors:
        sys.exit(f"{name}: {browser.errors}")


def terminal(methods: Sequence[str]) -> str:
    """What the terminal shows, as SVG with text kept as text."""
    bench = load()
    found = Explanations(bench.explain(TEXT, method) for method in methods)
    console = Console(record=True, width=86, force_terminal=True, color_system="truecolor", file=tempfile.TemporaryFile("w"))  # noqa: SIM115
    console.print(comparison([view.tokens for views in found.views() for view in views], colour=True))
    return console.export_svg(title=f'looprop explain "{TEXT}"', unique_id="looprop")


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome") or sys.exit("no Chromium on this machine")
    IMAGES.mkdir(exist_ok=True)
    (IMAGES / "terminal.svg").write_text(terminal(METHODS), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder, Browser(chromium) as browser:
        single, several, demo = (Path(folder) / f"{name}.html" for name in ("single", "several", "demo"))
        run("explain", TEXT, "--html", str(single))
        run("explain", TEXT, *(part for method in METHODS for part in ("-m", method)), "--html", str(several))
        run("demo", "--html", str(demo))
        photograph(browser, single, "explanation")
        photograph(browser, several, "comparison", height=720)
        photograph(browser, several, "comparison-dark", dark=True, height=720)
        photograph(browser, demo, "demo", height=1000)


if __name__ == "__main__":
    main()

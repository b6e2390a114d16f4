"""A real JupyterLab for tests and screenshots: a notebook whose outputs were made by looprop's own representations.

JupyterLab is no dependency: it is used where its command `jupyter-lab` is on the path, or where LOOPROP_JUPYTER_LAB
names it. `python -m venv lab && lab/bin/pip install jupyterlab` and then
`LOOPROP_JUPYTER_LAB=lab/bin/jupyter-lab` is all it takes.
"""

import base64
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TOKEN = "of-the-tests"
PATIENCE = 120.0  # seconds


def jupyter_lab() -> str | None:
    """The command, if there is one."""
    return os.environ.get("LOOPROP_JUPYTER_LAB") or shutil.which("jupyter-lab")


def shown(value: Any) -> dict[str, Any]:
    """What a kernel sends of a value: its representations by kind, as IPython asks for them."""
    found: dict[str, Any] = {"text/plain": repr(value)}
    if hasattr(value, "_repr_html_"):
        found["text/html"] = value._repr_html_()
    if hasattr(value, "_repr_png_"):
        found["image/png"] = base64.b64encode(value._repr_png_()).decode()
    return found


def notebook(cells: Sequence[tuple[str, Any]]) -> str:
    """A notebook of lines of code, each with what it shows."""
    written = [
        {
            "cell_type": "code",
            "id": f"cell-{number}",
            "execution_count": number,
            "metadata": {},
            "source": source,
            "outputs": [
                {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": shown(value)}
            ],
        }
        for number, (source, value) in enumerate(cells, start=1)
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return json.dumps({"cells": written, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5})


@contextmanager
def serving(command: str, folder: Path, content: str, *, dark: bool = False) -> Iterator[str]:
    """JupyterLab with one trusted notebook, in a folder and with settings of its own; gives the notebook's address."""
    home = folder / "home"
    place = folder / "notebooks" / "looprop.ipynb"
    place.parent.mkdir(parents=True)
    place.write_text(content, encoding="utf-8")
    settings = home / "settings" / "@jupyterlab"
    for extension, name, chosen in (
        ("apputils-extension", "themes", {"theme": "JupyterLab Dark" if dark else "JupyterLab Light"}),
        ("apputils-extension", "notification", {"fetchNews": "false", "checkForUpdates": False}),
        ("notebook-extension", "tracker", {"windowingMode": "none"}),
    ):
        (settings / extension).mkdir(parents=True, exist_ok=True)
        (settings / extension / f"{name}.jupyterlab-settings").write_text(json.dumps(chosen), encoding="utf-8")
    own = {"HOME": str(home), "JUPYTER_DATA_DIR": str(home / "data"), "JUPYTER_RUNTIME_DIR": str(home / "runtime")}
    environment = {**os.environ, **own, "JUPYTERLAB_SETTINGS_DIR": str(home / "settings")}
    trusting = Path(command).with_name("jupyter-trust")
    subprocess.run([str(trusting), str(place)], env=environment, check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["--no-browser", f"--port={port}", "--ip=127.0.0.1", f"--IdentityProvider.token={TOKEN}"]
    arguments += [f"--ServerApp.root_dir={place.parent}", "--ServerApp.allow_root=True"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([command, *arguments], env=environment, stdout=log, stderr=log, cwd=folder)
    try:
        _wait(f"http://127.0.0.1:{port}/api/status?token={TOKEN}", server)
        yield f"http://127.0.0.1:{port}/lab/tree/{place.name}?token={TOKEN}"
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait(address: str, server: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError("JupyterLab did not start") from None
            time.sleep(0.2)

"""Fixtures of the whole suite, and an environment in which tests are quick, quiet and offline."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import Browser

# Set before torch, matplotlib or the hub library is imported.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium; the test is skipped where there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip("no Chromium on this machine (Debian: apt-get install chromium)")


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    """A running headless Chromium, shared by all tests; every test opens its own page."""
    with Browser(chromium) as running:
        yield running


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of the public data sets, from LOOPROP_DATA; the test is skipped where it is not set."""
    if not (name := os.environ.get("LOOPROP_DATA")):
        pytest.skip("LOOPROP_DATA is not set: no data sets to read")
    if not (folder := Path(name)).is_dir():
        pytest.fail(f"LOOPROP_DATA must name a folder, got {name!r}")
    return folder


@pytest.fixture(autouse=True)
def data_where_it_is_needed(request: pytest.FixtureRequest) -> None:
    """What is marked `data` is skipped without the data sets, also where it reads them by itself."""
    if request.node.get_closest_marker("data"):
        request.getfixturevalue("data_folder")

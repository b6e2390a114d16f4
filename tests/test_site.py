"""The site: each public name is in the API reference and says what it is; no link is dead, nothing comes from outside.

The site itself is built once, without the page of a prompt, for which there is no language model here. That needs the
extra looprop[docs], which is part of looprop[dev].
"""

import importlib.util
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from website.checking import Page, dead_links, foreign_loads
from website.docstrings import as_rst, entries, inline, known_names
from website.places import ROOT, linked_file, local_links, moved, place_of
from website.public import docstring_of, first_sentence, home_of, public_modules
from website.reference import page_of, room_page
from website.staging import navigation, pages, with_live_pages

import test_docs
from browser import Browser

NAMES = [(module, name) for module, names in public_modules().items() for name in sorted(names)]
TOOLS = ("sphinx", "furo", "myst_parser")


# What the API reference is made of.


def test_every_public_name_says_what_it_is() -> None:
    wrong = []
    for module, name in NAMES:
        said = docstring_of(module, name)
        # What dataclasses and protocols say where nobody has written anything.
        unwritten = not said or said.startswith((f"{name}(", "Base class for protocol classes"))
        if unwritten or first_sentence(said)[-1:] not in ".:?)":
            wrong.append(f"{module}.{name} does not begin with a sentence: {said[:80]!r}")
    assert not wrong


def test_the_page_of_a_room_names_all_that_is_public() -> None:
    for module, names in public_modules().items():
        described = re.findall(r"^\.\. (?:auto|py:)\w+:: (\S+)$", room_page(module), re.MULTILINE)
        assert sorted(described) == sorted(f"{module}.{name}" for name in names), module


def test_rooms_of_the_reference() -> None:
    listed = re.findall(r"^\| `(looprop[\w.]*)` \|", (ROOT / "docs/reference.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(public_modules())


def test_where_a_name_is_defined() -> None:
    assert home_of("looprop", "load") == "looprop.workbench"
    assert home_of("looprop.metrics", "MATTERS") == "looprop.metrics.mattering"
    assert home_of("looprop.errors", "DataError") == "looprop.errors"


def test_parameters_become_a_list_and_signs_are_escaped() -> None:
    lines = [
        "Does |x| * 2.",
        "",
        "a: the first. b, c: others,",
        "    of `load`.",
        "",
        "    y = a_i",
        "",
        ">>> 1 * 1",
        "1",
    ]
    assert as_rst(lines, {"a", "b", "c"}, {"load": "looprop.load"}) == [
        r"Does \|x\| \* 2.",
        "",
        ":Parameters:",
        "    * **a**: the first.",
        "    * **b**, **c**: others, of :py:obj:`~looprop.load`.",
        "",
        "::",
        "",
        "    y = a_i",
        "",
        ">>> 1 * 1",
        "1",
        "",
    ]


@pytest.mark.parametrize("text", ["", "Note: this is a: sentence", "x: unknown. a: known"])
def test_what_is_no_list_of_parameters_stays_text(text: str) -> None:
    assert entries(text, {"a"}) == []


def test_names_that_a_docstring_may_describe() -> None:
    assert known_names(import_module("looprop").load) == {"source", "trust_remote_code", "device", "patch"}
    assert {"plus", "minus"} <= known_names(import_module("looprop").Contrast)


def test_text_with_one_backtick_is_kept() -> None:
    assert inline("a `b", {}) == "a ``b``"


def test_every_example_of_the_site_is_run() -> None:
    """Those of pages by test_docs.py; those of docstrings as doctests, which pytest collects from src."""
    shown = [page for page in pages() if re.search(r"^```(python|sh|yaml)$", (ROOT / page).read_text("utf-8"), re.M)]
    assert set(shown) <= {test_docs.name_of(page) for page in test_docs.PAGES}
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert '"--doctest-modules"' in settings
    assert 'testpaths = ["tests", "src", "experiments", "website"]' in settings


# Pages that move, and what is found wrong in them.


def test_links_lead_to_the_same_places_on_the_site() -> None:
    wrong = []
    for page in pages():
        text = (ROOT / page).read_text(encoding="utf-8")
        for old, new in zip(local_links(text), local_links(moved(text, page)), strict=True):
            same_file = linked_file(place_of(page), new) == place_of(linked_file(page, old))
            if not same_file or old.partition("#")[2] != new.partition("#")[2]:
                wrong.append(f"{page}: {old} becomes {new}")
    assert not wrong


def test_links_in_code_stay() -> None:
    text = "[a](docs/rules.md)\n\n```text\n[a](docs/rules.md)\n```\n"
    assert moved(text, "README.md") == "[a](rules.md)\n\n```text\n[a](docs/rules.md)\n```\n"


def test_the_index_has_sections_in_a_sensible_order() -> None:
    titles = [title for title, _ in navigation((ROOT / "docs/index.md").read_text(encoding="utf-8"))]
    assert titles == ["Start", "Which explanation", "How to", "Findings", "Reference", "Project"]


def test_live_pages_stand_below_their_pictures() -> None:
    page = with_live_pages("![x](images/audit.png)\n\n![y](images/prompt.png)\n", {"audit"})
    assert page.count("Open this page") == 1
    assert 'href="gallery/audit.html"' in page


def test_the_check_sees_what_is_dead_and_what_comes_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<link rel="stylesheet" href="a.css"><script src="//cdn.example/x.js"></script><img src="none.png">'
        '<a id="here" href="b.html#there">1</a><a href="b.html#gone">2</a><a href="c.html">3</a>'
        '<a href="#here">4</a><a href="https://example.org/">5</a><style>@import "https://fonts.example/f";</style>',
        encoding="utf-8",
    )
    (tmp_path / "b.html").write_text('<p id="there"></p>', encoding="utf-8")
    (tmp_path / "a.css").write_text("@font-face { src: url('https://fonts.example/a.woff2') }", encoding="utf-8")
    assert sorted(dead_links(tmp_path)) == [
        "a.html: b.html#gone leads to no place in the page",
        "a.html: c.html leads to no file",
        "a.html: none.png leads to no file",
    ]
    assert sorted(foreign_loads(tmp_path)) == [
        "a.css loads https://fonts.example/a.woff2",
        "a.html loads //cdn.example/x.js",
        "a.html loads https://fonts.example/f",
    ]


# The site as it is built.


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    missing = [tool for tool in TOOLS if importlib.util.find_spec(tool) is None]
    if missing:
        pytest.skip(f"the site is built with looprop[docs]; missing: {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, "-m", "website", "--out", str(folder), "--no-language-model"]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    # No warning, no dead link, nothing from outside: it says so, and fails.
    assert (built.returncode, built.stderr) == (0, "")
    return folder


@pytest.mark.slow
def test_the_api_reference_describes_every_public_name(site: Path) -> None:
    for module, names in public_modules().items():
        page = Page((site / "reference" / f"{page_of(module)}.html").read_text(encoding="utf-8"))
        # A name that the top has as well, or the room where it is defined, is described there.
        linked = {link.partition("#")[2].rpartition(".")[2] for link in page.links if ".html#looprop." in link}
        described = {anchor.rpartition(".")[2] for anchor in page.anchors if anchor.startswith(f"{module}.")}
        assert names <= described | linked


@pytest.mark.slow
def test_the_gallery_has_real_pages(site: Path) -> None:
    links = Page((site / "gallery.html").read_text(encoding="utf-8")).links
    for name in ("explanation", "comparison", "evaluation", "audit", "report"):
        assert f"gallery/{name}.html" in links
        assert "<html" in (site / "gallery" / f"{name}.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.browser
def test_search_finds_without_a_network(site: Path, browser: Browser) -> None:
    browser.open((site / "search.html").as_uri() + "?q=leave-one-out")
    browser.wait("document.querySelectorAll('#search-results li').length > 3")
    assert browser.errors == []

"""Follows every link of a built site, and finds whatever a page would load from another host."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "object": "data"}
OUTSIDE = re.compile(r"(?:https?:)?//", re.IGNORECASE)
STYLE_LOAD = re.compile(r"(?:url\(|@import)\s*['\"]?\s*((?:https?:)?//[^'\")\s]+)", re.IGNORECASE)


class Page(HTMLParser):
    """The addresses that a page links to and loads, and the places in it that can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif (address := given.get(LOADING.get(tag, ""))) is not None and given.get("rel") != "canonical":
            self.loads.append(address)


def read_site(folder: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}


def dead_links(folder: Path) -> Iterator[str]:
    """Links and loads that lead to no file or no place of the site, as sentences; other hosts are not asked."""
    pages = read_site(folder.resolve())
    for path, page in pages.items():
        for address in page.links + page.loads:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            place = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = place / "index.html" if place.is_dir() else place
            where = f"{path.relative_to(folder.resolve())}: {address}"
            if not place.is_file():
                yield f"{where} leads to no file"
            elif parts.fragment and place in pages and unquote(parts.fragment) not in pages[place].anchors:
                yield f"{where} leads to no place in the page"


def foreign_loads(folder: Path) -> Iterator[str]:
    """What a browser would fetch from another host when it opens a page of the site."""
    for path, page in read_site(folder).items():
        yield from (f"{path.name} loads {address}" for address in page.loads if OUTSIDE.match(address))
    for path in sorted([*folder.rglob("*.css"), *folder.rglob("*.html")]):
        text = path.read_text(encoding="utf-8")
        yield from (f"{path.name} loads {address}" for address in STYLE_LOAD.findall(text))

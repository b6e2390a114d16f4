"""Puts the pages of the repository, and those that are made for the site, into one folder for Sphinx."""

import re
import shutil
from pathlib import Path

from website.places import PROJECT, RESULTS, ROOT, linked_file, local_links, moved, place_of
from website.reference import write_reference

SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
ITEM = re.compile(r"^- \[([^\]]+)\]\(([^)\s]+)\)", re.MULTILINE)
PICTURE = re.compile(r"^!\[[^\]]*\]\(images/([\w-]+)\.png\)$", re.MULTILINE)


def pages() -> list[str]:
    """The pages of the repository that are on the site."""
    found = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "results").rglob("report.md")]
    return ["README.md", *PROJECT, *sorted(path.relative_to(ROOT).as_posix() for path in found)]


def navigation(index: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """The sections of docs/index.md, each with the titles and addresses of its list.

    >>> navigation("# x\\n## How to\\n- [Audit](how-to/audit.md): does it\\n- [Runs](../results)\\n")
    [('How to', [('Audit', 'how-to/audit.md'), ('Runs', '../results')])]
    """
    _, *parts = SECTION.split(index)
    return [(title, ITEM.findall(body)) for title, body in zip(parts[::2], parts[1::2], strict=True)]


def contents(title: str, entries: list[tuple[str, str]], *, hidden: bool = True) -> str:
    """A table of contents, as MyST has it."""
    lines = [f"{name} <{address.removesuffix('.md')}>" for name, address in entries]
    options = [":hidden:"] if hidden else [":maxdepth: 1"]
    return "\n".join(["", "```{toctree}", f":caption: {title}", *options, "", *lines, "```", ""])


def with_navigation(index: str) -> str:
    """The index, as it stands on the site, with the side bar that its lists make."""
    return index + "".join(contents(title, entries) for title, entries in navigation(index))


def with_live_pages(gallery: str, live: set[str]) -> str:
    """The gallery with the address of the real page below each picture of one."""

    def linked(match: re.Match[str]) -> str:
        if match[1] not in live:
            return match[0]
        return f'{match[0]}\n\n<p class="live"><a href="gallery/{match[1]}.html">Open this page</a></p>'

    return PICTURE.sub(linked, gallery)


def results_page(reports: list[str]) -> str:
    """The list of the runs that are kept, by their own titles."""
    entries = []
    for report in reports:
        heading = (ROOT / report).read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        entries.append((heading, report.removeprefix("results/")))
    text = "Every run is kept in the repository under `results/`, with its manifest (spec, seeds, versions, hashes of "
    text += "weights and data) and the values of every example; `looprop reproduce` runs it again.\n"
    return f"# Kept runs\n\n{text}{contents('Reports', entries, hidden=False)}"


def stage(folder: Path, live: set[str]) -> None:
    """Fill a folder with everything that Sphinx reads. live: names of the gallery's pages that were made."""
    for page in pages():
        text = (ROOT / page).read_text(encoding="utf-8")
        turned = moved(text, page)
        if page == "docs/index.md":
            turned = with_navigation(turned)
        elif page == "docs/gallery.md":
            turned = with_live_pages(turned, live)
        elif page == "docs/reference.md":
            names = write_reference(folder / "reference")
            turned += contents("Rooms", [(name, f"reference/{name}") for name in names])
        write(folder / place_of(page), turned)
        for target in local_links(text):
            file = linked_file(page, target)
            if (ROOT / file).is_file() and file not in pages():
                (folder / place_of(file)).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / file, folder / place_of(file))
    write(folder / RESULTS, results_page([page for page in pages() if page.startswith("results/")]))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")

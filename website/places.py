"""Where each file of the repository stands on the site, and the links of a page that moves there."""

import os
import re
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PROJECT = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
RESULTS = "results/index.md"


def place_of(path: str) -> str:
    """Where a file of the repository stands on the site; both are paths with slashes.

    >>> place_of("docs/how-to/audit.md"), place_of("README.md"), place_of("SECURITY.md")
    ('how-to/audit.md', 'overview.md', 'project/security.md')
    >>> place_of("results/softmax/report.md"), place_of("results/audit"), place_of("tests/screenshots.py")
    ('results/softmax/report.md', 'results/index.md', 'files/tests/screenshots.py')
    """
    if path == "README.md":
        return "overview.md"
    if path in PROJECT:
        return f"project/{path.lower()}"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path.startswith("results") and (ROOT / path).is_dir():
        return RESULTS
    return path if path.startswith("results/") and path.endswith((".md", ".png")) else f"files/{path}"


def local_links(text: str) -> list[str]:
    """The links of a page that lead to files of the repository, pictures among them."""
    found = [match[2] for match in LINK.finditer(FENCED.sub("", text))]
    return [target for target in found if not target.startswith(("http://", "https://", "mailto:", "#"))]


def linked_file(page: str, target: str) -> str:
    """The file of the repository that a link of a page leads to.

    >>> linked_file("docs/how-to/audit.md", "../rules.md#plans")
    'docs/rules.md'
    """
    return os.path.normpath(PurePosixPath(page).parent / target.partition("#")[0]).replace(os.sep, "/")


def moved(text: str, page: str) -> str:
    """A page of the repository with its links as they must be where the page stands on the site.

    >>> moved("see [rules](docs/rules.md#plans), [x](https://a.b) and [how](#how)", "README.md")
    'see [rules](rules.md#plans), [x](https://a.b) and [how](#how)'
    """
    here = PurePosixPath(place_of(page)).parent

    def turned(match: re.Match[str]) -> str:
        if match[2] not in local:
            return match[0]
        anchor = match[2].partition("#")[1:]
        there = os.path.relpath(place_of(linked_file(page, match[2])), here).replace(os.sep, "/")
        return match[1] + there + "".join(anchor) + match[3]

    local = set(local_links(text))
    parts, end = [], 0
    for fenced in FENCED.finditer(text):  # what stands in code stays
        parts += [LINK.sub(turned, text[end : fenced.start()]), fenced[0]]
        end = fenced.end()
    return "".join([*parts, LINK.sub(turned, text[end:])])

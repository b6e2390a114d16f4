"""Sphinx's settings. The pages that it reads are those that `staging.py` has put together."""

import re
from importlib import import_module
from types import UnionType
from typing import Any, Literal, Union, get_origin

import looprop
from website.docstrings import as_rst, known_names
from website.public import home_of, public_modules
from website.reference import links

project = "looprop"
author = "looprop developers"
release = version = looprop.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

myst_heading_anchors = 4

autodoc_typehints_format = "short"
autodoc_default_options = {"member-order": "bysource"}
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False
smartquotes = False  # quotes are code as often as not
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "looprop"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_search_summary = False  # they would be fetched, which a browser forbids to pages of a file
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"


def rewrite(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """autodoc hands over every docstring before it is read."""
    known = known_names(value) if what in {"class", "function", "method", "exception", "property"} else ()
    lines[:] = as_rst(lines, known, LINKS)


def shorten(
    app: Any, what: str, name: str, value: Any, options: Any, signature: str | None, returns: str | None
) -> Any:
    """A default that a dataclass makes anew is no Python; arrays and our own aliases have short names."""
    for written, alias in SHORT.items():
        signature = signature and signature.replace(written, alias)
    return signature and ARRAY.sub(r"NDArray[\1]", signature.replace("<factory>", "...")), returns


def short_names() -> dict[str, str]:
    """Public aliases of unions and literals: as autodoc writes them out, and by name; the longest first."""
    from sphinx.util.typing import stringify_annotation

    found = {
        stringify_annotation(value, "smart"): f"~{module}.{name}"
        for module, names in public_modules().items()
        for name in names
        if get_origin(value := getattr(import_module(module), name)) in {Literal, Union, UnionType}
    }
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


def without_overloads() -> None:
    """Four signatures of one method say less than one: autodoc is told that there are none."""
    from sphinx.pycode import ModuleAnalyzer

    for module in {home_of(module, name) for module, names in public_modules().items() for name in names}:
        analyzer = ModuleAnalyzer.for_module(module)
        analyzer.analyze()
        analyzer.overloads.clear()


SHORT: dict[str, str] = {}
ARRAY = re.compile(r"~?numpy\.ndarray\[tuple\[~?typing\.Any, \.\.\.\], ~?numpy\.dtype\[~?numpy\.(\w+)\]\]")
LINKS = links()


def setup(app: Any) -> dict[str, bool]:
    without_overloads()
    SHORT.update(short_names())
    app.connect("autodoc-process-docstring", rewrite)
    app.connect("autodoc-process-signature", shorten)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

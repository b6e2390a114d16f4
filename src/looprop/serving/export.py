"""Save what the explorer shows as one page that needs no server and still strikes out what was stored."""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from looprop.errors import InputError

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
FIELDS = {"about": dict, "panels": list}
SCRIPTS = ("tools.js", "drawing.js", "rows.js", "saving.js", "panel.js", "explorer.js")
"""In the order in which they are read."""


def explorer_page() -> str:
    """The page that a server sends."""
    loaded = "\n".join(f'<script src="{name}"></script>' for name in SCRIPTS)
    return asset("explorer.html").replace("<!-- scripts -->", loaded, 1)


def standalone_page(data: Mapping[str, Any]) -> str:
    """The explorer's page with its style, script and data inside."""
    if set(data) != set(FIELDS) or any(not isinstance(data[name], kind) for name, kind in FIELDS.items()):
        raise InputError(f"a page is made of {' and '.join(FIELDS)}")
    page = asset("explorer.html")
    page = page.replace("<head>", f'<head>\n<meta http-equiv="Content-Security-Policy" content="{POLICY}">', 1)
    page = page.replace('<link rel="stylesheet" href="explorer.css">', f"<style>\n{asset('explorer.css')}</style>", 1)
    stored = f'<script type="application/json" id="stored">{as_script(data)}</script>'
    code = "\n".join(asset(name) for name in SCRIPTS)
    return page.replace("<!-- scripts -->", f"{stored}\n<script>\n{code}</script>", 1)


def as_script(data: Any) -> str:
    """JSON that nothing in it can end, or be taken for markup.

    >>> as_script({"a": "</script><!--"})
    '{"a": "\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    try:
        text = json.dumps(data, allow_nan=False)  # everything outside ASCII is escaped
    except ValueError as error:  # JSON has 1e999, which is read as infinity
        raise InputError("a page holds a number that is too large") from error
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def asset(name: str) -> str:
    """A file of the page."""
    return files("looprop.serving").joinpath("assets", name).read_text(encoding="utf-8")
